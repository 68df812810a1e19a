package browser_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"

	"github.com/typedinformer/informer"
	"github.com/typedinformer/informer/debugpage"
	"github.com/typedinformer/informer/status"
)

var views = []string{"overview", "informers", "sets", "watches", "subscriptions", "queues", "controllers", "clients", "replicas", "managers", "electors", "objects"}

// visit shows a view.
func (b *tab) visit(view string) {
	b.Helper()
	eval[any](b, `void (location.hash = `+quote(view)+`)`)
	b.until(`!$('view-` + view + `').hidden && document.querySelectorAll('main > section:not([hidden])').length === 1`)
}

// contrasts returns the visible texts whose contrast with their background is below that of WCAG AA.
const contrasts = `(() => {
	const parse = (c) => { const [r, g, b, a = 1] = c.match(/[\d.]+/g).map(Number); return [r, g, b, a]; };
	const over = (top, below) => top.slice(0, 3).map((v, i) => v * top[3] + below[i] * (1 - top[3]));
	const background = (e) => {
		const layers = [];
		for (; e; e = e.parentElement) layers.push(parse(getComputedStyle(e).backgroundColor));
		return layers.reverse().reduce((below, top) => over(top, below), matchMedia('(prefers-color-scheme: dark)').matches ? [0, 0, 0] : [255, 255, 255]);
	};
	const luminance = (c) => c.map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const bad = [];
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let texts = 0;
	while (walker.nextNode()) {
		const e = walker.currentNode.parentElement;
		if (!walker.currentNode.textContent.trim() || !e.checkVisibility() || e.tagName === 'SCRIPT' || e.tagName === 'NOSCRIPT') continue;
		const style = getComputedStyle(e), below = background(e);
		const [light, dark] = [luminance(over(parse(style.color), below)), luminance(below)].sort((a, b) => b - a);
		const ratio = (light + 0.05) / (dark + 0.05), large = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700;
		texts++;
		if (ratio < (large ? 3 : 4.5)) bad.push(walker.currentNode.textContent.trim().slice(0, 40) + ': ' + ratio.toFixed(2));
	}
	if (texts < 10) bad.push('only ' + texts + ' texts');
	return bad.join('; ');
})()`

// unnamed returns the controls and images that have no name for a screen reader, and ids that are there twice.
const unnamed = `(() => {
	const bad = [];
	for (const e of document.querySelectorAll('a, button, input, select, [role=img], [role=region], section, nav')) {
		const labels = [e.getAttribute('aria-label'), e.textContent.trim(), e.labels?.[0]?.textContent, e.getAttribute('aria-labelledby') && document.getElementById(e.getAttribute('aria-labelledby'))?.textContent];
		if (e.checkVisibility() && !labels.some(Boolean)) bad.push(e.outerHTML.slice(0, 80));
	}
	const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
	bad.push(...ids.filter((id, n) => ids.indexOf(id) !== n).map((id) => 'id ' + id));
	for (const svg of document.querySelectorAll('svg')) {
		if (svg.checkVisibility() && svg.getAttribute('aria-hidden') !== 'true' && svg.getAttribute('role') !== 'img') bad.push('an svg without a role');
	}
	return bad.join('; ');
})()`

// small returns the controls that are smaller than 24 pixels, the least of WCAG 2.2 (2.5.8). A link in a sentence may be.
const small = `[...document.querySelectorAll('a, button, input, select')].filter((e) => e.checkVisibility() && e.id !== 'skip')
	.filter((e) => { const r = e.getBoundingClientRect(); return r.width < 24 || r.height < 24; }).map((e) => e.outerHTML.slice(0, 80)).join('; ')`

// faint returns the buttons and fields whose border has less contrast than 3:1 with what is around it (WCAG 1.4.11).
const faint = `(() => {
	const parse = (c) => { const [r, g, b, a = 1] = c.match(/[\d.]+/g).map(Number); return [r, g, b, a]; };
	const luminance = (c) => c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	const around = (e) => { for (e = e.parentElement; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 1) return c; } };
	let controls = 0;
	const bad = [...document.querySelectorAll('button:not(.open), input:not([type=checkbox]), select')].filter((e) => e.checkVisibility()).filter((e) => {
		controls++;
		const style = getComputedStyle(e);
		const [light, dark] = [luminance(parse(style.borderTopColor)), luminance(around(e))].sort((a, b) => b - a);
		return parseFloat(style.borderTopWidth) < 1 || (light + 0.05) / (dark + 0.05) < 3;
	}).map((e) => e.outerHTML.slice(0, 60));
	return controls ? bad.join('; ') : 'no control';
})()`

// sideways returns what a reader has to scroll sideways on a narrow screen, and the rows of a history whose parts are nearer to another row.
const sideways = `innerWidth > 640 ? '' : [
	...[...document.querySelectorAll('.scroll, main, .history, .facts')].filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1).map((e) => e.className || e.tagName),
	...[...document.querySelectorAll('tr.row > td')].filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > innerWidth).map((e) => e.textContent),
	...[...document.querySelectorAll('.history li + li')].filter((e) => e.checkVisibility()).filter((e) => {
		const [first, , last] = e.children, before = e.previousElementSibling.lastElementChild;
		return last.textContent && before.textContent && last.getBoundingClientRect().top - first.getBoundingClientRect().bottom >= first.getBoundingClientRect().top - before.getBoundingClientRect().bottom;
	}).map((e) => 'history: ' + e.textContent),
].join('; ')`

// Each view is readable in light and dark, wide and narrow: no horizontal scrolling of the page, or of a table on a phone, enough
// contrast of texts and borders, controls that fingers can hit, names for screen readers, and no message in the console.
func TestEachViewInEachLook(t *testing.T) {
	p := start(t, func(p *program) { p.config.Authorize = func(*http.Request) bool { return true } })
	defer p.forbid("deployments")()
	for _, l := range []look{wide, {"dark", 1280, 800}, {"light", 390, 740}, {"dark", 360, 740}} {
		t.Run(fmt.Sprintf("%s %d", l.scheme, l.width), func(t *testing.T) {
			b := open(t, p.url, "overview", l)
			b.until(`document.querySelectorAll('.problems li.error').length === 1`)
			for _, view := range views {
				b.visit(view)
				switch view {
				case "informers", "watches", "controllers", "clients", "managers":
					b.click("#view-" + view + " .open")
					b.until(`$('view-` + view + `').querySelector('.detail h3, .facts') !== null`)
				case "objects":
					b.until(`document.querySelectorAll('#list a').length > 1`)
					b.click("#list a")
					b.until(`!$('object').hidden`)
				}
				b.expect(`document.documentElement.scrollWidth <= innerWidth`, "true")
				b.expect(contrasts, "")
				b.expect(small, "")
				b.expect(faint, "")
				b.expect(sideways, "")
				b.expect(unnamed, "")
			}
		})
	}
}

// The detail of an informer has its audits. A long key does not make a phone scroll sideways.
func TestAudits(t *testing.T) {
	long := strings.Repeat("n", 253)
	p := start(t, func(p *program) {
		p.config.Authorize = func(*http.Request) bool { return true }
		p.config.Groups = nil
		p.config.Informers = []func() informer.InformerStatus{func() informer.InformerStatus {
			s := p.informer.Status()
			found := status.AuditResult{Resource: s.Resource.GroupVersionResource, Collection: s.Resource.String(), ResourceVersion: "77", Time: time.Now(), Took: 2 * time.Second, Objects: 1234, Bytes: 56_000, Unclear: 3, Differ: 3, Differences: []status.AuditDifference{
				{Key: informer.Key{Namespace: "default", Name: long}, Kind: status.DifferenceMissing}, {Key: informer.Key{Namespace: "default", Name: hostile}, Kind: status.DifferenceOutdated},
			}}
			s.Audit = status.Audit{Equal: 5, Different: 1, Failed: 2, Differ: 3, Last: found, LastError: &informer.AuditError{Result: found}, Next: time.Now().Add(time.Hour)}
			return s
		}}
	})
	b := open(t, p.url, "informers", look{"light", 390, 740})
	b.click("#view-informers .open")
	for _, text := range []string{"5 equal, 1 different, 2 failed", "3 of 1,234 objects differ, 3 unclear, at version 77, 56 kB, in 2 s", "default/" + long + " missing, default/" + hostile + " outdated and 1 more"} {
		b.until(`document.querySelector('#view-informers .detail')?.textContent.includes(` + quote(text) + `)`)
	}
	b.expect(sideways, "")
	b.expect(contrasts, "")
	b.expect(`window.hacked`, "undefined")
}

// A broken watch comes first. When the server is mended, the page shows it without a reload, and keeps the focus.
func TestBrokenWatch(t *testing.T) {
	p := start(t, nil)
	b := open(t, p.url, "overview", wide)
	b.until(`$('problems').textContent === 'Nothing is wrong.'`)
	b.expect(`$('health').textContent`, "Healthy")
	mend := p.forbid("nodes")
	b.until(`$('problems').textContent.includes('403 Forbidden')`)
	b.expect(`document.querySelector('.problems .what').textContent`, "v1 nodes watch")
	b.expect(`$('health').textContent`, "1 error")
	b.expect(`document.title`, "(1) shop-controller informers")
	b.expect(`document.body.textContent.includes('onerror')`, "false") // the text of the error, without authorization

	b.visit("watches")
	b.expect(`document.querySelector('#view-watches tbody tr td.first').textContent`, "v1 nodes")
	b.expect(`document.querySelector('#view-watches tbody tr td').textContent`, "Backoff")
	eval[any](b, `document.querySelector('#view-watches tbody tr .open').focus()`)
	mend()
	b.until(`document.querySelectorAll('#view-watches .state.error').length === 0`)
	b.expect(`document.activeElement.textContent`, "v1 nodes") // its row has moved
	b.visit("overview")
	b.until(`$('problems').textContent === 'Nothing is wrong.'`)
}

// With 100 informers, the filter and "only problems" find the few that matter.
func TestHundredInformers(t *testing.T) {
	p := start(t, func(p *program) {
		for n := range 91 {
			share[*metav1.PartialObjectMetadata](p, informer.Resource{GroupVersionResource: corev1.SchemeGroupVersion.WithResource("pods"), Namespaces: []string{fmt.Sprintf("team-%02d", n)}})
		}
	})
	b := open(t, p.url, "informers", wide)
	b.until(`document.querySelectorAll('#view-informers tr.row').length === 100`)
	b.expect(`document.querySelector('#nav a[data-view=informers]').textContent`, "Informers100")
	b.click("#view-informers input[type=search]")
	b.press("team-4")
	b.until(`document.querySelectorAll('#view-informers tr.row').length === 10`)
	b.expect(`document.querySelector('#view-informers [role=status]').textContent`, "10 of 100")
	b.click("#view-informers input[type=checkbox]")
	b.until(`document.querySelector('#view-informers .empty').checkVisibility()`)
	defer p.forbid("ingresses")()
	eval[any](b, `document.querySelector('#view-informers input[type=search]').select()`)
	b.press(kb.Backspace)
	b.until(`document.querySelectorAll('#view-informers tr.row').length === 1`)
	b.expect(`document.querySelector('#view-informers tr.row .first').textContent`, "networking.k8s.io/v1 ingresses")
	defer p.forbid("pods")()
	b.visit("overview")
	b.until(`/^and 7[34] more$/.test(document.querySelector('.problems li.more')?.textContent)`) // the client may be one of them
}

// Members of a set are among the informers, and the set has a row of its own.
func TestMembersOfASet(t *testing.T) {
	p := start(t, func(p *program) {
		p.config.Sets = map[string]func() []informer.MemberStatus{"clusters": func() (members []informer.MemberStatus) {
			for n := range 300 {
				m := informer.MemberStatus{Name: fmt.Sprintf("cluster-%03d", n), State: status.MemberSynced, Informer: p.informer.Status()}
				if n == 299 {
					m.State, m.Err = status.MemberEnded, errors.New("gone")
				}
				members = append(members, m)
			}
			return members
		}}
	})
	b := open(t, p.url, "sets", wide)
	b.until(`document.querySelectorAll('#view-sets tr.row').length === 1`)
	b.expect(`[...document.querySelectorAll('#view-sets tr.row td')].slice(0, 4).map((e) => e.textContent).join(' ')`, "Problems clusters 300 299")
	b.visit("informers")
	b.until(`document.querySelector('#view-informers tr.row .first')?.textContent === 'cluster-299: v1 pods'`)
	b.expect(`document.querySelector('#nav a[data-view=informers]').textContent`, "Informers1 of 109")
	b.visit("overview")
	b.until(`[...document.querySelectorAll('.problems li .what')].some((e) => e.textContent === 'clusters: cluster-299 informer')`)
	b.expect(`$('tiles').textContent.includes('Members of sets300299 synced')`, "true")
}

// focused describes the element that has the focus.
const focused = `(() => {
	const e = document.activeElement;
	return e === document.body ? 'body' : (e.id || e.getAttribute('href') || e.className || e.tagName.toLowerCase()) + ' ' + [...document.querySelectorAll('*')].indexOf(e);
})()`

// focusable returns what focused returns for each element that Tab has to reach.
const focusable = `[...document.querySelectorAll('a[href], button, input, select, [tabindex="0"]')].filter((e) => e.checkVisibility() && !e.disabled)
	.map((e) => (e.id || e.getAttribute('href') || e.className || e.tagName.toLowerCase()) + ' ' + [...document.querySelectorAll('*')].indexOf(e)).join('\n')`

// Tab reaches every control in the order of the document, the first one leads to the content, and the focus is visible.
func TestKeyboard(t *testing.T) {
	p := start(t, func(p *program) { p.config.Authorize = func(*http.Request) bool { return true } })
	defer p.forbid("nodes")()
	b := open(t, p.url, "", wide) // the overview; with a fragment, Tab may begin at the link to it
	b.until(`document.querySelectorAll('.problems li').length === 1`)
	b.press(kb.Tab)
	b.expect(`document.activeElement.id`, "skip")
	b.expect(`document.activeElement.getBoundingClientRect().top >= 0`, "true")
	eval[any](b, `void $('pause').click()`) // the texts stay meanwhile
	for _, view := range views {
		b.visit(view)
		if view == "objects" {
			b.until(`document.querySelectorAll('#list a').length > 1`)
		}
		eval[any](b, `void $('skip').focus()`)
		want := strings.Split(eval[string](b, focusable), "\n")
		var got []string
		for n := range want {
			if n > 0 {
				b.press(kb.Tab)
			}
			got = append(got, eval[string](b, focused))
			if visible := eval[bool](b, `(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2; })()`); !visible {
				b.Errorf("%s: the focus on %s is not visible", view, got[len(got)-1])
			}
		}
		if !slices.Equal(got, want) {
			b.Errorf("%s: Tab reaches\n%q, want\n%q", view, got, want)
		}
	}

	b.visit("overview")
	eval[any](b, `void $('skip').focus()`)
	b.press(kb.Enter)
	b.expect(`document.activeElement.id`, "main")
	b.press(kb.Tab, chromedp.KeyModifiers(kb.ModifierShift)) // back to the last link of the navigation
	b.expect(`document.activeElement.getAttribute('href')`, "#objects")
	b.press(kb.Enter)
	b.until(`!$('view-objects').hidden`)
	b.expect(`document.activeElement.getAttribute('aria-current')`, "page")

	b.visit("watches")
	eval[any](b, `document.querySelector('#view-watches .open').focus()`)
	b.press(kb.Enter)
	b.expect(`document.activeElement.getAttribute('aria-expanded')`, "true")
	b.until(`document.querySelector('#view-watches .facts').checkVisibility()`)
	b.press(kb.Enter)
	b.expect(`document.activeElement.getAttribute('aria-expanded')`, "false")
	b.expect(`document.querySelector('#view-watches .facts')`, "null")
}

// The charts change while the page is open, and say in words what they show.
func TestCharts(t *testing.T) {
	p := start(t, nil)
	b := open(t, p.url, "overview", wide)
	b.work(p, 5)
	for _, label := range []string{"Events", "Reconciles", "Lag", "Backlog", "Memory"} {
		b.until(`[...document.querySelectorAll('.chart svg')].some((s) => s.getAttribute('role') === 'img' && s.getAttribute('aria-label')?.startsWith('` + label + `, ') && / now, at most .* in the last /.test(s.getAttribute('aria-label')) && s.querySelector('.line').getAttribute('d').startsWith('M'))`)
	}
	line := `document.querySelector('.chart:not([hidden]) .line').getAttribute('d')`
	before := eval[string](b, line)
	b.work(p, 3)
	b.until(line + ` !== ` + quote(before))
	b.expect(`[...state.series.values()].every((points) => points.length <= samples)`, "true")
	b.work(p, 160)
	b.expect(`Math.max(...[...state.series.values()].map((points) => points.length)) > samples - 10`, "true")
}

// A hidden tab and a paused page send no request. They go on when they are shown again.
func TestPause(t *testing.T) {
	p := start(t, nil)
	b := open(t, p.url, "overview", wide)
	poll := func() int { // polls once more, if the page does
		eval[any](b, `new Promise((done) => { const free = () => polling ? setTimeout(free, 5) : done(); free(); }).then(poll).then(() => clearTimeout(timer))`)
		return p.polled()
	}
	b.click("#pause")
	b.expect(`$('pause').getAttribute('aria-pressed')`, "true")
	b.expect(`$('updated').textContent.startsWith('paused at')`, "true")
	before := poll()
	if got := poll(); got != before {
		t.Errorf("%d requests while paused", got-before)
	}
	b.click("#pause")
	b.until(`$('updated').textContent.startsWith('updated')`)
	before = poll()
	if got := poll(); got != before+1 {
		t.Errorf("%d requests after the pause, want 1", got-before)
	}
	eval[any](b, `void (Object.defineProperty(document, 'hidden', {value: true, configurable: true}), document.dispatchEvent(new Event('visibilitychange')))`)
	before = poll()
	if got := poll(); got != before {
		t.Errorf("%d requests while hidden", got-before)
	}
	eval[any](b, `void (delete document.hidden, document.dispatchEvent(new Event('visibilitychange')))`)
	b.until(`!polling && (clearTimeout(timer), true)`) // the next one is two seconds away
	if got := p.polled(); got != before+1 {
		t.Errorf("%d requests after the tab was shown, want 1", got-before)
	}
}

// When the program is gone, the page says so, and keeps what it knew. Nobody knows then how the program is.
func TestProgramIsGone(t *testing.T) {
	p := start(t, nil)
	b := open(t, p.url, "overview", wide)
	p.fail()
	eval[any](b, `poll()`)
	b.until(`$('offline').checkVisibility() && $('offline').textContent.startsWith('No new data since ')`)
	b.expect(`$('tiles').textContent.includes('Informers9')`, "true")
	b.expect(`$('health').textContent`, "Unknown")
	b.expect(`document.title`, "(?) shop-controller informers")
	b.forgive("404")
	p.answer()
	eval[any](b, `poll()`)
	b.until(`$('health').textContent === 'Healthy' && !$('offline').checkVisibility()`)
	b.expect(`document.title`, "shop-controller informers")
}

// The policy allows no style, script or image that is not the page's own.
func TestPolicy(t *testing.T) {
	p := start(t, nil)
	b := open(t, p.url, "overview", wide)
	for directive, violation := range map[string]string{
		"style-src-elem":            `document.head.append(Object.assign(document.createElement('style'), {textContent: 'body { display: none }'}))`,
		"img-src":                   `document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:1/'}))`,
		"require-trusted-types-for": `(() => { try { document.body.innerHTML = '<b>' } catch {} })()`,
	} {
		got := eval[string](b, `new Promise((done) => {
			document.addEventListener('securitypolicyviolation', (e) => done(e.effectiveDirective), {once: true});
			`+violation+`;
		})`)
		if got != directive {
			t.Errorf("a violation of %s, want one of %s", got, directive)
		}
	}
	b.forgive("style-src", "img-src", "TrustedHTML")
}

// The objects view leads from an index to an object. Secrets are masked.
func TestObjects(t *testing.T) {
	p := start(t, func(p *program) { p.config.Authorize = func(*http.Request) bool { return true } })
	b := open(t, p.url, "objects", wide)
	b.until(`document.querySelectorAll('#list a').length === 100`)
	b.click("#next")
	b.until(`$('list').textContent.startsWith('default/web-0100')`)
	b.click("#first")
	b.until(`$('list').textContent.startsWith('default/web-0000')`)
	eval[any](b, `void ($('index').value = 'index node', $('index').dispatchEvent(new Event('change')))`)
	b.until(`document.querySelectorAll('#list a').length === 12`)
	b.expect(`document.querySelector('#list a').textContent`, "node-1104")
	b.click("#list a")
	b.until(`$('list-title').textContent === 'Objects with node = node-1' && $('list').textContent.startsWith('default/web-0000')`)
	b.click("#list a")
	b.until(`$('object').textContent.includes('"image": "registry.example.com/web:1.8.2"')`)
	b.click("#up")
	b.until(`document.querySelectorAll('#list a').length === 12`)
	eval[any](b, `void ($('index').value = '', $('index').dispatchEvent(new Event('change')))`)
	b.click("#match")
	b.press("web-1239" + kb.Enter)
	b.until(`document.querySelectorAll('#list a').length === 1`)

	eval[any](b, `void ($('store').value = 'v1 secrets', $('store').dispatchEvent(new Event('change')))`)
	b.until(`$('list').textContent === 'default/login'`)
	b.click("#list a")
	b.until(`$('object').textContent.includes('"password": "<masked: 7 bytes>"')`)
	b.expect(`document.documentElement.innerHTML.includes(`+quote(secret)+`)`, "false")
}

// Stores, keys and objects have links, and the back button works.
func TestLinks(t *testing.T) {
	p := start(t, func(p *program) { p.config.Authorize = func(*http.Request) bool { return true } })
	b := open(t, p.url, "objects?store=v1+pods&index=node&key=node-2&namespace=default&name=web-0013", wide)
	b.until(`$('object-title').textContent === 'default/web-0013' && $('object').textContent.includes('"name": "web-0013"')`)
	b.until(`$('list-title').textContent === 'Objects with node = node-2' && document.querySelector('#list [aria-current]')?.textContent === 'default/web-0013'`)
	b.click(`#list li:nth-child(3) a`)
	b.until(`$('object').textContent.includes('"name": "web-0025"')`)
	eval[any](b, `void (Object.defineProperty(navigator, 'clipboard', {value: {writeText: async (text) => { window.copied = text; }}}))`)
	b.click("#copy")
	b.until(`$('copy').textContent === 'Copied'`)
	b.expect(`copied`, p.url+"#objects?store=v1+pods&index=node&key=node-2&namespace=default&name=web-0025")
	eval[any](b, `void ($('store').value = 'v1 secrets', $('store').dispatchEvent(new Event('change')))`)
	b.until(`$('list').textContent === 'default/login' && $('object').hidden`)
	eval[any](b, `void window.history.back()`)
	b.until(`$('object-title').textContent === 'default/web-0025' && document.querySelectorAll('#list a').length === 100 && $('store').value === 'v1 pods' && $('index').value === 'index node'`)
	eval[any](b, `void window.history.back()`)
	b.until(`$('object').textContent.includes('"name": "web-0013"')`)
	eval[any](b, `void (location.hash = 'objects?store=gone')`)
	b.until(`$('list-note').textContent.startsWith('no such store')`)
	b.forgive("404")
}

// A search that has compared 10,000 objects without a hit says so, and goes on where it was.
func TestSearchGoesOn(t *testing.T) {
	p := start(t, func(p *program) {
		p.config.Authorize = func(*http.Request) bool { return true }
		for n := range 10_000 {
			create(p.T, p.pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "z", Name: fmt.Sprintf("late-%05d", n)}})
		}
	})
	b := open(t, p.url, "objects", wide)
	b.until(`document.querySelectorAll('#list a').length === 100`)
	b.click("#match")
	b.press("late-09999" + kb.Enter)
	b.until(`$('list-note').textContent === 'Nothing found yet: looked at 10,000 of 11,240 objects'`)
	b.expect(`$('next').textContent`, "Continue the search")
	b.click("#next")
	b.until(`$('list-note').textContent === '1 object on this page: looked at 11,240 of 11,240 objects'`)
	b.expect(`$('list').textContent`, "z/late-09999")
	b.expect(`$('next').hidden`, "true")
	eval[any](b, `void window.history.back()`)
	b.until(`$('list-note').textContent === 'Nothing found yet: looked at 10,000 of 11,240 objects'`)
}

// A caller signs in with a token, which only requests of this page carry.
func TestSignIn(t *testing.T) {
	p := start(t, func(p *program) {
		p.config.Authorize = func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer right" }
	})
	b := open(t, p.url, "objects", wide)
	b.until(`$('sign-in').checkVisibility()`)
	b.click("#token")
	b.press("wrong" + kb.Enter)
	b.until(`$('sign-note').textContent.includes('does not admit')`)
	b.click("#token")
	b.press("right" + kb.Enter)
	b.until(`document.querySelectorAll('#list a').length === 100 && !$('sign-in').checkVisibility()`)
	b.expect(`document.documentElement.innerHTML.includes('right"') || localStorage.length + sessionStorage.length > 0 || document.cookie !== ''`, "false")
}

// A controller whose reconciles all fail comes first, and the row says which keys fail and why.
func TestFailingController(t *testing.T) {
	p := start(t, func(p *program) {
		p.config.Authorize = func(*http.Request) bool { return true }
		p.reconcile = func() error { return errors.New(hostile) }
	})
	b := open(t, p.url, "overview", wide)
	b.until(`document.querySelector('.problems .what')?.textContent === 'website controller'`)
	b.expect(`document.querySelector('.problems li').textContent.includes('no reconcile has succeeded') && document.querySelector('.problems li').textContent.includes('onerror')`, "true")
	b.visit("controllers")
	b.expect(`document.querySelector('#view-controllers tbody td').textContent`, "Failing")
	b.click("#view-controllers .open")
	b.until(`document.querySelectorAll('#view-controllers .entries li').length === 11`)
	b.visit("electors")
	b.expect(`document.querySelector('#view-electors tbody tr').textContent.includes('this replica')`, "true")
}

// Without authorization, the page says why it shows no objects.
func TestObjectsAreHidden(t *testing.T) {
	p := start(t, nil)
	b := open(t, p.url, "objects", wide)
	b.until(`$('objects-empty').textContent.startsWith('Objects are hidden')`)
	b.expect(`$('browse').hidden`, "true")
}

// An empty program has an explanation in each view.
func TestEmptyProgram(t *testing.T) {
	p := start(t, func(p *program) {
		p.config = debugpage.Config{Authorize: func(*http.Request) bool { return true }}
	})
	b := open(t, p.url, "overview", wide)
	for _, view := range views[1:] {
		b.visit(view)
		b.until(`$('view-` + view + `').querySelector('.empty')?.checkVisibility()`)
	}
}

// HTML in names, keys, errors and objects is text.
func TestHTMLIsText(t *testing.T) {
	p := start(t, func(p *program) {
		p.config.Authorize = func(*http.Request) bool { return true }
		p.config.Name = hostile
		byName := informer.NewIndex(p.informer, func(pod *corev1.Pod) []string { return []string{hostile + pod.Name} })
		p.config.Objects = append(p.config.Objects, debugpage.Objects(p.informer, debugpage.Index(hostile, byName)))
		p.informer.Subscribe(informer.HandlerFuncs[*corev1.Pod]{}, informer.SubscriptionConfig[*corev1.Pod]{Name: hostile})
		queue := informer.NewQueue(informer.QueueConfig[string]{Name: hostile})
		p.config.Queues = []func() status.Queue{queue.Status}
	})
	defer p.forbid("nodes")()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Annotations: map[string]string{"html": hostile}}}
	create(t, p.pods, pod)
	b := open(t, p.url, "overview", wide)
	b.until(`$('health').textContent === '1 error'`)
	b.expect(`$('name').textContent`, hostile)
	for _, view := range views {
		b.visit(view)
		switch view {
		case "watches":
			b.click("#view-watches .open")
			b.until(`$('view-watches').textContent.includes(` + quote(hostile) + `)`)
		case "subscriptions", "queues":
			b.until(`$('view-` + view + `').textContent.includes(` + quote(hostile) + `)`)
		case "objects":
			eval[any](b, `void ($('store').value = 'v1 pods (2)', $('store').dispatchEvent(new Event('change')))`)
			b.until(`$('list').textContent.startsWith('default/a')`)
			b.click("#list a")
			b.until(`$('object').textContent.includes('onerror')`)
			eval[any](b, `void ($('index').selectedIndex = 1, $('index').dispatchEvent(new Event('change')))`)
			b.until(`$('list').textContent.startsWith(` + quote(hostile) + `)`)
		}
		b.expect(`document.querySelectorAll('img, body script, iframe').length`, "0")
	}
	b.expect(`window.hacked`, "undefined")
}
