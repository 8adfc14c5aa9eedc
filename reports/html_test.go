package reports

import (
	"crypto/sha256"
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestPageIsHarmless(t *testing.T) {
	text := string(render(t, "html", newFixture(7).input()))
	script := regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllStringSubmatch(text, -1)
	if len(script) != 1 || script[0][1] != pageScript() {
		t.Fatalf("%d scripts, of which one is ours", len(script))
	}
	all := text
	text = strings.Replace(text, script[0][0], "", 1)
	text = regexp.MustCompile(`(?s)<script type="application/json" id="data">[^<>]*</script>`).ReplaceAllString(text, "")
	for _, bad := range []string{"<script", "<img", "onerror=alert(1)>", "javascript:", "src=", "href=", "url(", "@import", "style=", "ZgotmplZ", "\x1b"} {
		if i := strings.Index(strings.ReplaceAll(text, "--x=&lt;img src=x onerror=alert(1)&gt;", ""), bad); i >= 0 {
			t.Errorf("the page holds %q: %s", bad, text[max(0, i-60):min(len(text), i+60)])
		}
	}
	style := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllStringSubmatch(all, -1)
	if len(style) != 1 {
		t.Fatalf("%d style elements", len(style))
	}
	sum := sha256.Sum256([]byte(style[0][1]))
	policy := regexp.MustCompile(`http-equiv="Content-Security-Policy" content="([^"]*)"`).FindStringSubmatch(text)
	if len(policy) != 2 {
		t.Fatal("no policy")
	}
	csp := strings.NewReplacer("&#39;", "'", "&#43;", "+").Replace(policy[1])
	if want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; script-src " + hashed(script[0][1]) + ";"; !strings.Contains(csp, want) || !strings.HasPrefix(csp, "default-src 'none'") {
		t.Errorf("policy %q, want %q", csp, want)
	}
}

func TestPageSaysTheAnswer(t *testing.T) {
	f := newFixture(7)
	text := string(render(t, "html", f.input()))
	for _, want := range []string{"1.05 ms", "net.link.move_ns 60 %", "100.00 %", "Lost: 12 events", "Failed: 1 of 28", "netns.cleanup", "rcu.barrier", "cold start", "How it was measured", "operation 1, traced", "untraced"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if n := strings.Count(text, "<rect"); n < 2*14 {
		t.Errorf("%d bars", n)
	}
}

func TestPageOfManyOperations(t *testing.T) {
	text := render(t, "html", newFixture(2000).input())
	if len(text) > 1_500_000 {
		t.Errorf("%d bytes", len(text))
	}
	if !strings.Contains(string(text), "slowest of") {
		t.Error("bars are not grouped")
	}
}

// TestPageBeginsWithTheMedian: of each target, the operation in the middle is
// offered before the extremes, whatever their order in the run.
func TestPageBeginsWithTheMedian(t *testing.T) {
	in := newFixture(7).input()
	picked, order := pickOperations(in.Result)
	d, err := drawings(in, in.Result)
	if err != nil {
		t.Fatal(err)
	}
	var shown []int
	for _, o := range d.Operations {
		shown = append(shown, o.Index)
	}
	if !slices.Equal(shown, order) {
		t.Errorf("it shows %v, not %v", shown, order)
	}
	if slices.IsSorted(order) {
		t.Errorf("the order %v shows nothing: it is that of the run", order)
	}
	if which := picked[order[0]]; which != "median" {
		t.Errorf("the first is the %s", which)
	}
}
