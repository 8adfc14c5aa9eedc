package stage
import "testing"
func TestLoad(t *testing.T) { s, err := Load([]string{"container"}, nil); if err != nil { t.Fatal(err) }; t.Log(len(s.Stages), len(s.rules), len(s.frames), s.Probes(), s.Hash) }
