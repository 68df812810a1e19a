package browser_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// chromium is the one browser of all tests. Each test has tabs of its own.
var chromium context.Context

// TestMain starts Chromium, and fails if there is none.
func TestMain(m *testing.M) {
	binary := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			binary = found
			break
		}
	}
	if binary == "" {
		fmt.Fprintln(os.Stderr, "these tests need Chromium: apt-get install chromium")
		os.Exit(1)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(binary), chromedp.Flag("force-color-profile", "srgb"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has no sandbox for root
	}
	allocator, kill := chromedp.NewExecAllocator(context.Background(), options...)
	var end context.CancelFunc
	chromium, end = chromedp.NewContext(allocator)
	if err := chromedp.Do(chromium); err != nil {
		fmt.Fprintf(os.Stderr, "%s does not start: %v\n", binary, err)
		os.Exit(1)
	}
	code := m.Run()
	end()
	kill()
	os.Exit(code)
}

// tab is a tab that shows a page. Its methods fail the test.
type tab struct {
	*testing.T
	ctx context.Context

	mu     sync.Mutex    // protects the fields below
	faults []string      // messages of the console, exceptions, violations of the policy
	news   chan struct{} // closed at the next fault
}

// look is how a tab looks at a page.
type look struct {
	scheme        string // "light" or "dark"
	width, height int64
}

var wide = look{"light", 1280, 800}

// open opens url#view in a new tab, and waits until it shows data. When the test ends, it fails for each message in the
// console: errors, exceptions and violations of the Content-Security-Policy.
func open(t *testing.T, url, view string, l look) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(chromium)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	b := &tab{T: t, ctx: ctx, news: make(chan struct{})}
	console, dialogs := chromedp.Console(ctx), chromedp.Events(ctx, page.JavascriptDialogOpening)
	var listeners sync.WaitGroup
	listeners.Go(func() {
		for message, err := range console {
			if err == nil {
				b.fault(message.String() + " " + message.URL)
			}
		}
	})
	listeners.Go(func() {
		for dialog, err := range dialogs {
			if err == nil {
				b.fault("dialog: " + dialog.Message)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		end()
		listeners.Wait()
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, fault := range b.faults {
			t.Errorf("the browser says: %s", fault)
		}
	})
	b.do(
		chromedp.EmulateViewport(l.width, l.height),
		chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
			scheme := &emulation.MediaFeature{Name: "prefers-color-scheme", Value: l.scheme}
			if _, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{scheme}}); err != nil {
				return err
			}
			_, err := cdp.Call(ctx, tab, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
			return err
		}),
		chromedp.Navigate(url+"#"+view),
	)
	b.until(`document.getElementById('health').textContent !== ''`)
	return b
}

func (b *tab) fault(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults = append(b.faults, text)
	close(b.news)
	b.news = make(chan struct{})
}

// forgive waits for a fault with each of the texts, and removes all faults with them.
func (b *tab) forgive(texts ...string) {
	b.Helper()
	for _, text := range texts {
		for {
			b.mu.Lock()
			before, news := len(b.faults), b.news
			b.faults = slices.DeleteFunc(b.faults, func(fault string) bool { return strings.Contains(fault, text) })
			after := len(b.faults)
			b.mu.Unlock()
			if after < before {
				break
			}
			select {
			case <-news:
			case <-b.ctx.Done():
				b.Fatalf("the browser never said %q", text)
			}
		}
	}
}

// do runs actions.
func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.Fatal(err)
	}
}

// eval returns the value of a JavaScript expression, or of its promise.
func eval[T any](b *tab, expression string) T {
	b.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return value
}

// until waits until an expression is true. It needs no eval in the page, which its policy forbids.
func (b *tab) until(expression string) {
	b.Helper()
	const limit = 2 * time.Minute
	if !eval[bool](b, fmt.Sprintf(`new Promise((done) => {
		const end = performance.now() + %d;
		const check = () => (%s) ? done(true) : performance.now() > end ? done(false) : setTimeout(check, 20);
		check();
	})`, limit.Milliseconds(), expression)) {
		b.Fatalf("never true: %s\nthe page shows:\n%s", expression, eval[string](b, `document.body.innerText.slice(0, 3000)`))
	}
}

// expect fails the test unless an expression has the value want, as a string.
func (b *tab) expect(expression, want string) {
	b.Helper()
	if got := eval[string](b, "String("+expression+")"); got != want {
		b.Errorf("%s is %q, want %q", expression, got, want)
	}
}

// press presses a key, such as kb.Tab.
func (b *tab) press(keys string, o ...chromedp.KeyOption) {
	b.Helper()
	b.do(chromedp.KeyEvent(keys, o...))
}

// click clicks the element that a CSS selector finds.
func (b *tab) click(selector string) {
	b.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector)))
}

// quote returns text as a JavaScript string.
func quote(text string) string { return strconv.Quote(text) }
