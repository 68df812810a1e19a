package browser_test

import (
	"flag"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
)

var update = flag.Bool("update", false, "write the images of the documentation")

// images is the directory of the images.
const images = "../../docs/images"

// shoot writes an image of the visible part of the page.
func (b *tab) shoot(name string) {
	b.Helper()
	png, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		b.Fatal(err)
	}
	if err := os.MkdirAll(images, 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(images, "debugpage-"+name+".png"), png, 0o644); err != nil {
		b.Fatal(err)
	}
}

// work lets minutes pass for the page, while pods change.
func (b *tab) work(p *program, polls int) {
	b.Helper()
	change := 1240
	for n := range polls {
		rate := 60 + 35*math.Sin(float64(n)/9) + 20*math.Sin(float64(n)/2.3)
		for range int(rate) {
			p.write(change)
			change++
		}
		p.pass(2 * time.Second)
		eval[any](b, `poll().then(() => clearTimeout(timer))`)
	}
}

func TestImages(t *testing.T) {
	if !*update {
		t.Skip("writes the images of the documentation; needs -update")
	}
	p := start(t, func(p *program) { p.config.Authorize = func(*http.Request) bool { return true } })
	release := make(chan struct{})
	defer close(release)
	slow := informer.HandlerFuncs[*corev1.Pod]{Update: func(_, _ *corev1.Pod) { <-release }}
	p.informer.SubscribeWith(slow, informer.SubscriptionConfig[*corev1.Pod]{Name: "index-search"})
	defer p.forbid("deployments")()
	for _, l := range []look{{"light", 1280, 760}, {"dark", 1280, 760}, {"light", 360, 740}} {
		name := l.scheme
		if l.width < 1000 {
			name = "narrow"
		}
		b := open(t, p.url, "overview", l)
		b.until(`document.querySelectorAll('.problems li').length > 0`)
		b.work(p, 130)
		b.shoot("overview-" + name)
		for _, view := range []string{"informers", "watches", "subscriptions", "queues", "controllers", "clients"} {
			eval[any](b, `void (location.hash = `+quote(view)+`)`)
			b.until(`!document.getElementById('view-` + view + `').hidden`)
			if view == "informers" || view == "watches" || view == "clients" {
				b.click(`#view-` + view + ` .open`)
			}
			b.shoot(view + "-" + name)
		}
		eval[any](b, `void (location.hash = 'objects')`)
		b.until(`document.querySelectorAll('#list button').length > 0`)
		eval[any](b, `void ($('store').value = 'v1 secrets', $('store').dispatchEvent(new Event('change')))`)
		b.until(`document.querySelectorAll('#list button').length === 1`)
		b.click(`#list button`)
		b.until(`$('object').textContent.includes('masked')`)
		b.shoot("objects-" + name)
	}
}
