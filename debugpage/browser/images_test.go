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

// work polls the page, with two seconds between polls by its clock, while pods change.
func (b *tab) work(p *program, polls int) {
	b.Helper()
	change := 1240
	for n := range polls {
		rate := 60 + 35*math.Sin(float64(n)/9) + 20*math.Sin(float64(n)/2.3)
		for range int(rate) {
			p.write(change)
			change++
		}
		if err := p.informer.WaitForObject(b.ctx, p.last); err != nil {
			b.Fatal(err)
		}
		if err := p.queue.WaitProcessed(b.ctx); err != nil {
			b.Fatal(err)
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
	slow := informer.HandlerFuncs[*corev1.Pod]{UpdateFunc: func(_, _ *corev1.Pod) { <-release }}
	p.informer.Subscribe(slow, informer.SubscriptionConfig[*corev1.Pod]{Name: "index-search"})
	defer p.refuse("deployments", `User "system:serviceaccount:shop:controller" cannot watch resource "deployments" in API group "apps" at the cluster scope`)()
	object := func(b *tab) {
		b.visit("objects")
		b.until(`document.querySelectorAll('#list a').length > 1`)
		eval[any](b, `void ($('store').value = 'v1 secrets', $('store').dispatchEvent(new Event('change')))`)
		b.until(`document.querySelectorAll('#list a').length === 1`)
		b.click(`#list a`)
		b.until(`$('object').textContent.includes('masked')`)
	}
	show := func(view string) func(*tab) {
		return func(b *tab) {
			b.visit(view)
			if eval[bool](b, `$('view-`+view+`').querySelector('.open') !== null`) {
				b.click("#view-" + view + " .open")
				b.until(`$('view-` + view + `').querySelector('.facts') !== null`)
			}
			eval[any](b, `void document.activeElement.blur()`)
		}
	}
	for _, image := range []struct {
		name string
		look
		show func(*tab)
	}{
		{"overview", look{"light", 1280, 600}, show("overview")},
		{"watches", look{"dark", 1280, 640}, show("watches")},
		{"objects", look{"light", 1280, 640}, object},
		{"narrow", look{"light", 390, 740}, show("watches")},
	} {
		const polls = 130
		p.pass(-polls * 2 * time.Second) // so the charts end now
		b := open(t, p.url, "overview", image.look)
		b.work(p, polls)
		image.show(b)
		b.shoot(image.name)
	}
}
