// Package pagetest opens report pages in a real browser, for tests.
package pagetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"stagetrace/tracer/tracetest"
)

// Page is a page in a browser of its own. What it says on the console, and what
// it asks the network for, fails the test when it ends.
type Page struct {
	t   testing.TB
	ctx context.Context

	mu   sync.Mutex
	said []string
}

// ScreenshotsEnv names a folder for pictures of the pages.
const ScreenshotsEnv = "TRACE_SCREENSHOTS"

// chromium is the browser, by the names that it has.
func chromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no chromium, chromium-browser or google-chrome in PATH")
}

// Open opens a file and waits until its scripts have run.
func Open(t testing.TB, name string) *Page {
	t.Helper()
	browser, err := chromium()
	tracetest.Require(t, "chromium", err)
	name, err = filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(browser), chromedp.NoSandbox, chromedp.WindowSize(1280, 900),
		chromedp.WSURLReadTimeout(time.Minute))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), options...)
	ctx, end := chromedp.NewContext(alloc)
	ctx, expire := context.WithTimeout(ctx, 3*time.Minute)
	p := &Page{t: t, ctx: ctx}
	t.Cleanup(func() {
		expire()
		end()
		stop()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, s := range p.said {
			t.Error(s)
		}
	})
	address := (&url.URL{Scheme: "file", Path: name}).String()
	chromedp.ListenTarget(ctx, func(event any) { p.event(address, event) })
	p.Run(network.Enable(), runtime.Enable(), chromedp.Navigate(address), chromedp.WaitReady("html[data-ready=true]", chromedp.ByQuery))
	return p
}

func (p *Page) event(address string, event any) {
	said := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		var args []string
		for _, a := range e.Args {
			args = append(args, string(a.Value)+a.Description)
		}
		said = fmt.Sprintf("the page says on the console (%s): %s", e.Type, strings.Join(args, " "))
	case *runtime.EventExceptionThrown:
		said = "the page throws: " + e.ExceptionDetails.Error()
	case *page.EventJavascriptDialogOpening:
		said = "the page opens a dialog: " + e.Message
	case *network.EventRequestWillBeSent:
		if e.Request.URL == address || strings.HasPrefix(e.Request.URL, "data:") {
			return
		}
		said = "the page asks for " + e.Request.URL
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = append(p.said, said)
}

// Run carries actions out.
func (p *Page) Run(actions ...chromedp.Action) {
	p.t.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// Eval gives the value of an expression; T is what its JSON becomes.
func Eval[T any](p *Page, expression string) (v T) {
	p.t.Helper()
	p.Run(chromedp.Evaluate(expression, &v))
	return v
}

// Click clicks an element. As a script: a browser without a screen may wait for
// ever for a frame after real input.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.script("document.querySelector(%q).click()", selector)
}

// Key presses a key on an element that has the focus.
func (p *Page) Key(selector, key string) {
	p.t.Helper()
	p.script("{ const e = document.querySelector(%q); e.focus(); document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: %q, bubbles: true, cancelable: true})) }", selector, key)
}

// Enter sets the value of a field or a choice.
func (p *Page) Enter(selector, value string) {
	p.t.Helper()
	p.script("{ const e = document.querySelector(%q); e.value = %q; for (const n of ['input', 'change']) e.dispatchEvent(new Event(n, {bubbles: true})) }", selector, value)
}

func (p *Page) script(format string, args ...any) {
	p.t.Helper()
	p.Run(chromedp.Evaluate(fmt.Sprintf(format, args...), nil))
}

// CheckFigures holds every figure of the page against the value of result.json
// that it names, by a JSON pointer (RFC 6901), and tells how many there are.
func (p *Page) CheckFigures(result []byte) int {
	p.t.Helper()
	var document any
	if err := json.Unmarshal(result, &document); err != nil {
		p.t.Fatal(err)
	}
	figures := Eval[[][2]string](p, `[...document.querySelectorAll("data[data-from]")].map((e) => [e.dataset.from, e.value])`)
	for _, f := range figures {
		want, err := pointed(document, f[0])
		if err != nil {
			p.t.Errorf("%s: %v", f[0], err)
			continue
		}
		got, err := strconv.ParseFloat(f[1], 64)
		if err != nil || math.Abs(got-want) > 1e-9*math.Abs(want) {
			p.t.Errorf("%s is %s on the page, %v in the result", f[0], f[1], want)
		}
	}
	return len(figures)
}

// pointed is the number at a place of a document.
func pointed(v any, pointer string) (float64, error) {
	for _, key := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		switch x := v.(type) {
		case map[string]any:
			v = x[strings.NewReplacer("~1", "/", "~0", "~").Replace(key)]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(x) {
				return 0, fmt.Errorf("no element %q", key)
			}
			v = x[i]
		default:
			return 0, fmt.Errorf("nothing at %q", key)
		}
	}
	n, ok := v.(float64)
	if !ok {
		return 0, fmt.Errorf("it is %v, no number", v)
	}
	return n, nil
}

// View is what the timeline shows: ns since the operation's begin.
type View struct{ Begin, End, Segments float64 }

// View reads it.
func (p *Page) View() View {
	p.t.Helper()
	d := Eval[map[string]string](p, `({...document.getElementById("timeline").dataset})`)
	var v View
	for key, to := range map[string]*float64{"begin": &v.Begin, "end": &v.End, "segments": &v.Segments} {
		n, err := strconv.ParseFloat(d[key], 64)
		if err != nil {
			p.t.Fatalf("timeline's %s: %v", key, err)
		}
		*to = n
	}
	return v
}

// redraw has the page draw now, in its new colours and width, and not with the
// next frame.
const redraw = "dispatchEvent(new Event('beforeprint'))"

// Pictures writes what the page looks like, light, dark, narrow and printed, if
// the environment names a folder for that.
func (p *Page) Pictures(name string) {
	p.t.Helper()
	dir := os.Getenv(ScreenshotsEnv)
	if dir == "" {
		return
	}
	scheme := func(value string) chromedp.Action {
		return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}})
	}
	for _, look := range []struct {
		name, scheme string
		width        int64
	}{{"light", "light", 1280}, {"dark", "dark", 1280}, {"narrow", "light", 420}} {
		var png []byte
		p.Run(scheme(look.scheme), chromedp.EmulateViewport(look.width, 900), chromedp.Evaluate(redraw, nil), chromedp.FullScreenshot(&png, 100))
		p.save(filepath.Join(dir, name+"-"+look.name+".png"), png)
	}
	p.Run(scheme("light"), chromedp.ActionFunc(func(ctx context.Context) error {
		pdf, _, err := page.PrintToPDF().WithPrintBackground(true).Do(ctx)
		if err == nil {
			p.save(filepath.Join(dir, name+".pdf"), pdf)
		}
		return err
	}), chromedp.EmulateViewport(1280, 900))
}

func (p *Page) save(name string, data []byte) {
	p.t.Helper()
	if err := os.WriteFile(name, data, 0o644); err != nil {
		p.t.Fatal(err)
	}
}
