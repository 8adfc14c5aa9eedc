package workloads

import (
	"slices"
	"strings"
	"testing"
)

func TestParseImages(t *testing.T) {
	got := parseImages([]string{
		"sha256:1 localhost/stagetrace-probe:a", "sha256:1 localhost/stagetrace-run:k", "sha256:2 docker.io/library/busybox:local",
		"sha256:3 <none>:<none>", "", "one", "too many words here",
	})
	if len(got) != 3 || !slices.Equal(got["sha256:1"], []string{"stagetrace-probe:a", "stagetrace-run:k"}) || !slices.Equal(got["sha256:2"], []string{"busybox:local"}) {
		t.Errorf("%v", got)
	}
	if tags := tagsBeside(got, "stagetrace-run:k"); len(tags) != 2 {
		t.Errorf("beside the mark: %v", tags)
	}
	if tags := tagsBeside(got, "absent:x"); tags != nil {
		t.Errorf("beside nothing: %v", tags)
	}
}

func FuzzParseImages(f *testing.F) {
	f.Add("sha256:1 localhost/a:b\nsha256:1 c:d")
	f.Fuzz(func(t *testing.T, text string) {
		for id, tags := range parseImages(strings.Split(text, "\n")) {
			if id == "" || len(tags) == 0 {
				t.Errorf("%q has %q", id, tags)
			}
		}
	})
}

func TestDockerArguments(t *testing.T) {
	c := cliContainer{name: "n", image: "i", program: "/p", network: "none", mounts: 1}
	for v, want := range map[cliVerb]string{
		verbRun:     "run --rm --pull never --network none --name n --mount type=bind,src=/usr/share,dst=/mnt0,ro --x i /p",
		verbLaunch:  "run --detach --pull never --network none --name n --mount type=bind,src=/usr/share,dst=/mnt0,ro --x i /p",
		verbCreate:  "create --pull never --network none --name n --mount type=bind,src=/usr/share,dst=/mnt0,ro --x i /p",
		verbStart:   "start n",
		verbExec:    "exec n /p",
		verbPause:   "pause n",
		verbUnpause: "unpause n",
	} {
		if got := strings.Join(dockerArguments(v, c, []string{"--x"}), " "); got != want {
			t.Errorf("%s: %s, want %s", v, got, want)
		}
	}
}

func TestDeadName(t *testing.T) {
	me, err := currentOwner()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		cliPrefix + deadOwner(t).Key() + "-cli-none-run-0-1-1": true,
		cliPrefix + me.Key() + "-cli-none-run-0-1-1":           false,
		cliPrefix + "web-1": false,
		"web":               false,
		"":                  false,
	} {
		if got := deadName(name, me); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
