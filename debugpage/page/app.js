'use strict';

// The page polls status.json and changes the document in place, so the focus, the scroll position and open rows stay.
// All text is set as textContent: names, keys and errors may come from a hostile server.

const period = 2000; // milliseconds between two polls
const samples = 150; // points of a chart: 5 minutes
const patience = 15_000; // milliseconds for an answer
const maxRows = 500; // rows of a table

// ---- Text -------------------------------------------------------------------------------------------------------------

const integers = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
const short = new Intl.NumberFormat('en', {maximumSignificantDigits: 3});

const number = (n) => n === undefined || n === null ? '' : integers.format(n);
const rate = (n) => n === undefined ? '' : n >= 100 ? integers.format(n) : short.format(n);
const plural = (n, noun) => `${number(n)} ${noun}${n === 1 ? '' : 's'}`;

function bytes(n) {
  if (n === undefined) return '';
  for (const [unit, size] of [['GB', 1e9], ['MB', 1e6], ['kB', 1e3]]) {
    if (n >= size) return `${short.format(n / size)} ${unit}`;
  }
  return `${number(n)} B`;
}

function seconds(s) {
  if (s === undefined || s === null) return '';
  if (s <= 0) return '0 s';
  if (s < 1e-6) return `${short.format(s * 1e9)} ns`;
  if (s < 1e-3) return `${short.format(s * 1e6)} µs`;
  if (s < 1) return `${short.format(s * 1e3)} ms`;
  if (s < 60) return `${short.format(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 172800) return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor(s % 86400 / 3600)} h`;
}

// ago returns the time since an RFC 3339 time, by the clock of the server.
function ago(time) {
  return time ? seconds(Math.max(0, Math.round((Date.parse(state.status.time) - Date.parse(time)) / 1000))) : '';
}

// until returns the time to an RFC 3339 time, by the clock of the server.
const until = (time) => seconds(Math.max(0, Math.round((Date.parse(time) - Date.parse(state.status.time)) / 1000)));

const clock = (time) => new Date(time).toLocaleTimeString('en-GB');

// quantile returns an upper bound of a quantile of a histogram: that of its bucket.
function quantile(d, q) {
  let below = 0;
  for (const b of d.buckets) {
    below += b.count;
    if (below >= q * d.count) return Math.min(b.atMostSeconds, d.maxSeconds);
  }
  return d.maxSeconds;
}

// durations describes a histogram by its mean and a bound of its 99th percentile.
function durations(d) {
  return d.count ? `${seconds(d.sumSeconds / d.count)} / ≤ ${seconds(quantile(d, 0.99))}` : '';
}

const bound = 'p99 is at most the upper bound of its bucket; buckets grow by a factor of 4';

// merged returns the sum of histograms.
function merged(all) {
  const counts = new Map();
  for (const b of all.flatMap((d) => d.buckets)) counts.set(b.atMostSeconds, (counts.get(b.atMostSeconds) ?? 0) + b.count);
  const buckets = [...counts].sort((a, b) => a[0] - b[0]).map(([atMostSeconds, count]) => ({atMostSeconds, count}));
  return {count: sum(all, (d) => d.count), sumSeconds: sum(all, (d) => d.sumSeconds), maxSeconds: greatest(all, (d) => d.maxSeconds), buckets};
}

// ---- Document ---------------------------------------------------------------------------------------------------------

const $ = (id) => document.getElementById(id);
const svgNames = new Set(['svg', 'path', 'line', 'circle', 'rect', 'title']);

// el makes an element. A property is an attribute, or a listener if it is a function.
function el(name, properties = {}, ...children) {
  const e = svgNames.has(name) ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === 'function') e.addEventListener(key, value);
    else if (value === true) e.setAttribute(key, '');
    else if (value !== false && value !== undefined) e.setAttribute(key, value);
  }
  e.append(...children.filter((c) => c !== undefined && c !== ''));
  return e;
}

function setText(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

function setAttribute(e, name, value) {
  if (e.getAttribute(name) !== value) e.setAttribute(name, value);
}

// replace gives parent these children, unless nothing has changed since the last call. It keeps the focus by the data-focus
// of the focused element.
function replace(parent, version, make) {
  if (parent.dataset.version === version) return;
  const focused = parent.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
  parent.dataset.version = version;
  parent.replaceChildren(...make());
  if (focused !== undefined) [...parent.querySelectorAll('[data-focus]')].find((e) => e.dataset.focus === focused)?.focus();
}

// Shapes differ by severity, so nobody has to tell colours apart.
const shapes = {
  ok: 'M5 0a5 5 0 1 0 .01 0z',
  warning: 'M5 0 10 9.5H0z',
  error: 'M0 0h10v10H0z',
  idle: 'M5 0a5 5 0 1 0 .01 0zM5 2a3 3 0 1 1-.01 0z',
};
const shape = (kind) => el('svg', {viewBox: '0 0 10 10', 'aria-hidden': 'true'}, el('path', {d: shapes[kind], fill: 'currentColor', 'fill-rule': 'evenodd'}));
const arrow = () => el('svg', {viewBox: '0 0 10 10', 'aria-hidden': 'true'}, el('path', {d: 'M2.5 0 8 5l-5.5 5z', fill: 'currentColor'}));

const badness = {error: 2, warning: 1, '': 0};

// ---- State ------------------------------------------------------------------------------------------------------------

const state = {
  status: undefined,
  paused: false,
  lost: false, // the last poll failed: nobody knows how the program is
  series: new Map(), // from a name to the points {t, v} of a chart, oldest first
  counters: new Map(), // from a name to the last {t, v} of a counter
  rates: new Map(), // from a name to the last rate per second
};

function addPoint(name, t, v) {
  if (v === undefined) return;
  const points = state.series.get(name) ?? [];
  points.push({t, v});
  while (points.length > samples || points[0].t < t - samples * period) points.shift();
  state.series.set(name, points);
}

// addCounter notes the value of a counter, and returns its rate per second, or undefined at first.
function addCounter(name, t, v) {
  if (v === undefined) return undefined;
  const last = state.counters.get(name);
  state.counters.set(name, {t, v});
  if (!last || t <= last.t) return undefined;
  const perSecond = Math.max(0, (v - last.v) * 1000 / (t - last.t)); // a new informer of the same name begins at zero
  state.rates.set(name, perSecond);
  addPoint(name, t, perSecond);
  return perSecond;
}

const sum = (list, of) => list.reduce((total, x) => total + (of(x) ?? 0), 0);
const greatest = (list, of) => list.reduce((most, x) => Math.max(most, of(x) ?? 0), 0);

// name gives each item an id that the next status has, too: its name, and a number if others have the same name.
function name(items, of) {
  const used = new Map();
  for (const item of items) {
    const n = (used.get(of(item)) ?? 0) + 1;
    used.set(of(item), n);
    item.id = n === 1 ? of(item) : `${of(item)} (${n})`;
  }
}

// prepare adds to a status what the tables need, and notes the points of the charts.
function prepare(s) {
  const t = Date.parse(s.time);
  name(s.sets, (x) => x.name);
  name(s.informers, (i) => i.set ? `${i.set}: ${i.member}, ${i.name}` : i.name);
  const named = (i) => i.member ? `${i.member}: ${i.name}` : i.name;
  s.watches = s.informers.flatMap((i) => i.watches.map((w) => ({...w, resource: named(i), informer: i.id})));
  s.subscriptions = s.informers.flatMap((i) => i.subscriptions.map((x) => ({...x, resource: named(i), informer: i.id})));
  name(s.watches, (w) => `${w.informer}\n${w.namespace}`);
  name(s.subscriptions, (x) => `${x.informer}\n${x.name}`);
  name(s.queues, (q) => q.name);
  name(s.controllers, (c) => c.name);
  name(s.clients, (c) => c.host);
  name(s.replicas, (r) => r.group);
  name(s.managers, () => 'manager');
  name(s.electors, (e) => e.lease);

  for (const i of s.informers) {
    i.events = sum(i.watches, (w) => w.events);
    i.backlog = greatest(i.subscriptions, (x) => x.backlog);
    i.lag = greatest(i.subscriptions, (x) => x.oldestSeconds);
    addCounter(`events ${i.id}`, t, i.events);
  }
  for (const w of s.watches) addCounter(`watch ${w.id}`, t, w.events);
  for (const q of s.queues) addCounter(`adds ${q.id}`, t, q.adds);
  for (const c of s.controllers) addCounter(`calls ${c.id}`, t, c.succeeded + c.requeuedAfter + c.backedOff + c.failed);
  for (const c of s.clients) addCounter(`requests ${c.id}`, t, sum(c.requests, (r) => r.count));
  const alone = s.informers.filter((i) => !i.set); // a set may show others at the next poll
  addCounter('events', t, sum(alone, (i) => i.events) + sum(s.sets, (x) => x.events));
  addCounter('calls', t, sum(s.controllers, (c) => c.succeeded + c.requeuedAfter + c.backedOff + c.failed));
  addPoint('lag', t, Math.max(greatest(s.subscriptions, (x) => x.oldestSeconds), greatest(s.sets, (x) => x.lagSeconds), greatest(s.queues, (q) => q.longestReadySeconds)));
  addPoint('backlog', t, sum(alone, (i) => i.queued + sum(i.subscriptions, (x) => x.backlog)) + sum(s.sets, (x) => x.backlog) + sum(s.queues, (q) => q.ready));
  addPoint('memory', t, s.process.heapBytes);
  for (const [name, points] of state.series) if (points.at(-1).t < t - samples * period) state.series.delete(name);
  for (const [name, last] of state.counters) {
    if (last.t === t) continue;
    state.counters.delete(name); // what it counted has gone
    state.rates.delete(name);
  }
  return s;
}

// ---- Charts -----------------------------------------------------------------------------------------------------------

// ceiling returns a round number that is not below v.
function ceiling(v) {
  if (v <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].map((m) => m * power).find((c) => c >= v);
}

// paths returns the paths of a line and of the area below it.
function paths(points, from, to, top, width, height) {
  const xy = points.map((p) => `${((p.t - from) / (to - from) * width).toFixed(1)} ${(height - p.v / top * height).toFixed(1)}`);
  if (xy.length < 2) return ['', ''];
  const x = (p) => ((p.t - from) / (to - from) * width).toFixed(1);
  return [`M${xy.join('L')}`, `M${x(points[0])} ${height}L${xy.join('L')}L${x(points.at(-1))} ${height}Z`];
}

const charts = [
  {series: 'events', label: 'Events', unit: '/s', format: rate, help: 'events that the watches received, per second'},
  {series: 'calls', label: 'Reconciles', unit: '/s', format: rate, help: 'calls of Reconcile that ended, per second'},
  {series: 'lag', label: 'Lag', format: seconds, help: 'age of the oldest change or key that waits'},
  {series: 'backlog', label: 'Backlog', format: number, help: 'changes and keys that wait'},
  {series: 'memory', label: 'Memory', format: bytes, help: 'memory of objects on the heap, dead ones included'},
];

const emptyUntilTwo = 'Waiting for a second sample';

function makeChart(c) {
  c.value = el('span', {class: 'value'});
  c.line = el('path', {class: 'line'});
  c.area = el('path', {class: 'area'});
  c.svg = el('svg', {viewBox: '0 0 300 92', preserveAspectRatio: 'none', role: 'img'},
    ...[0.5, 46, 91.5].map((y) => el('line', {class: 'grid', x1: '0', x2: '300', y1: y, y2: y})), c.area, c.line);
  c.from = el('span');
  c.top = el('span', {class: 'max', 'aria-hidden': 'true'});
  c.node = el('figure', {class: 'chart', title: c.help}, el('figcaption', {}, el('span', {class: 'title'}, c.label), c.value, el('span', {class: 'grow'}), c.top), c.svg,
    el('div', {class: 'axis', 'aria-hidden': 'true'}, c.from, el('span', {}, 'now')));
  return c.node;
}

function drawCharts() {
  for (const c of charts) {
    const points = state.series.get(c.series) ?? [];
    if (!c.node) $('charts').append(makeChart(c));
    c.node.hidden = c.series === 'calls' && state.status.controllers.length === 0;
    if (c.node.hidden) continue;
    if (points.length === 0) {
      setText(c.value, '–');
      setAttribute(c.svg, 'aria-label', `${c.label}: ${emptyUntilTwo}`);
      setText(c.from, emptyUntilTwo);
      continue;
    }
    const text = (v) => c.format(v) + (c.unit ?? '');
    const last = points.at(-1), most = Math.max(...points.map((p) => p.v)), top = ceiling(most);
    const from = Math.min(points[0].t, last.t - 60_000);
    const [line, area] = paths(points, from, last.t, top, 300, 91);
    setText(c.value, text(last.v));
    setAttribute(c.line, 'd', line);
    setAttribute(c.area, 'd', area);
    setText(c.from, `${seconds(Math.round((last.t - from) / 1000))} ago`);
    setText(c.top, text(top));
    setAttribute(c.svg, 'aria-label', `${c.label}, ${c.help}: ${text(last.v)} now, at most ${text(most)} in the last ${seconds(Math.round((last.t - points[0].t) / 1000))}`);
  }
}

// spark draws a small line for a table.
function spark(series) {
  const points = (state.series.get(series) ?? []).slice(-30);
  if (points.length < 2 || points.every((p) => p.v === 0)) return undefined;
  const [line] = paths(points, points[0].t, points.at(-1).t, ceiling(Math.max(...points.map((p) => p.v))), 72, 15);
  return el('svg', {class: 'spark', viewBox: '0 -0.5 72 17', 'aria-hidden': 'true'}, el('path', {class: 'line', d: line}));
}

// ---- Tables -----------------------------------------------------------------------------------------------------------

// A Table shows items, the worst first. A column has a title and cell(item), which returns a text or {text, class, node}.
class Table {
  constructor(view, columns, {detail, empty, state: stateOf}) {
    Object.assign(this, {view, columns, detail, empty, stateOf});
    this.rows = new Map(); // by id of the item
    this.match = el('input', {type: 'search', autocomplete: 'off', spellcheck: 'false', input: () => this.draw(this.items)});
    this.bad = el('input', {type: 'checkbox', change: () => this.draw(this.items)});
    this.note = el('span', {class: 'muted num', role: 'status'});
    this.controls = el('div', {class: 'controls'}, el('label', {}, 'Filter ', this.match), el('label', {class: 'check'}, this.bad, 'Only problems'), this.note);
    this.body = el('tbody');
    // The roles stay when a narrow screen shows rows as cards, which are no table for CSS.
    const head = (title, properties) => el('th', {scope: 'col', role: 'columnheader', ...properties}, title);
    this.head = el('tr', {role: 'row'}, head('Status'), ...columns.map((c) => head(c.title, {class: c.number ? 'n' : undefined, title: c.help})));
    this.body.setAttribute('role', 'rowgroup');
    this.scroll = el('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-labelledby': `h-${view}`}, el('table', {role: 'table'}, el('thead', {role: 'rowgroup'}, this.head), this.body));
    this.none = el('div', {class: 'empty'});
    $(`view-${view}`).append(this.controls, this.scroll, this.none);
  }

  draw(items) {
    if (!items) return;
    this.items = items;
    const match = this.match.value.toLowerCase();
    let shown = items.filter((i) => (!this.bad.checked || i.severity) && (!match || i.id.toLowerCase().includes(match)));
    shown.sort((a, b) => (badness[b.severity] ?? 0) - (badness[a.severity] ?? 0)); // stable
    const matches = shown.length;
    shown = shown.slice(0, maxRows);
    this.controls.hidden = items.length === 0;
    this.scroll.hidden = shown.length === 0;
    this.none.hidden = shown.length > 0;
    setText(this.note, matches > shown.length ? `${number(shown.length)} of ${number(matches)} shown; use the filter`
      : matches < items.length ? `${number(matches)} of ${number(items.length)}` : '');
    if (items.length === 0) replace(this.none, 'empty', () => this.empty);
    else if (shown.length === 0) replace(this.none, 'filtered', () => [el('strong', {}, this.bad.checked && !match ? 'No problems here' : 'Nothing matches the filter')]);

    const focused = document.activeElement;
    const seen = new Set();
    let next = this.body.firstElementChild;
    const place = (node) => {
      if (node === next) next = next.nextElementSibling;
      else this.body.insertBefore(node, next);
    };
    for (const item of shown) {
      seen.add(item.id);
      const row = this.rows.get(item.id) ?? this.makeRow(item);
      this.fill(row, item);
      place(row.node);
      if (row.open) place(row.extra);
    }
    while (next) {
      const gone = next;
      next = next.nextElementSibling;
      gone.remove();
    }
    for (const id of this.rows.keys()) if (!seen.has(id)) this.rows.delete(id);
    if (focused !== document.activeElement && this.body.contains(focused)) focused.focus({preventScroll: true});
  }

  makeRow(item) {
    const row = {cells: this.columns.map((c) => el('td', {role: 'cell', 'data-label': c.title})), status: el('td', {role: 'cell', class: 'status'}), open: false};
    row.node = el('tr', {class: 'row', role: 'row'}, row.status, ...row.cells);
    row.cells[0].className = 'first';
    if (this.detail) {
      row.label = el('span');
      row.button = el('button', {type: 'button', class: 'open', 'aria-expanded': 'false', click: () => this.toggle(item.id)}, arrow(), row.label);
      row.cells[0].append(row.button);
      row.more = el('div');
      row.extra = el('tr', {class: 'extra', role: 'row'}, el('td', {role: 'cell', class: 'detail', colspan: this.columns.length + 1}, row.more));
    }
    this.rows.set(item.id, row);
    return row;
  }

  toggle(id) {
    const row = this.rows.get(id);
    row.open = !row.open;
    setAttribute(row.button, 'aria-expanded', String(row.open));
    this.draw(this.items);
  }

  fill(row, item) {
    const [kind, word] = this.stateOf(item);
    const version = `${kind} ${word}`;
    if (row.version !== version) {
      row.version = version;
      row.status.replaceChildren(el('span', {class: `state ${kind}`}, shape(kind), word));
    }
    this.columns.forEach((c, n) => {
      let value = c.cell(item);
      if (typeof value !== 'object') value = {text: value};
      const text = value.text === '' || value.text === undefined ? '–' : String(value.text);
      if (n === 0) {
        setText(row.label ?? row.cells[0], text);
        return;
      }
      const name = [c.number ? 'n' : '', c.wrap ? 'wrap' : '', c.mono ? 'mono' : '', value.class ?? '', ['0', '0 B', '–'].includes(text) ? 'zero' : ''].join(' ').trim();
      if (row.cells[n].className !== name) row.cells[n].className = name;
      if (value.node || row.cells[n].firstElementChild) row.cells[n].replaceChildren(text, ...(value.node ? [value.node] : []));
      else setText(row.cells[n], text);
    });
    if (row.open) {
      const version = JSON.stringify([item, this.detail.uses?.(item)]);
      replace(row.more, version, () => this.detail.make(item));
    }
  }
}

const failure = (f) => f && `${f.time ? `${ago(f.time)} ago: ` : ''}${f.text || f.class}`;
const failureCell = (x) => x.lastError ? {text: `${x.lastError.class}, ${ago(x.lastError.time)} ago`, class: x.severity ? '' : 'muted'} : '';

const bad = (n, text = number(n), kind = 'warning') => ({text, class: n ? `bad ${kind}` : ''});

// facts makes a list of terms and values. It leaves out those without a value.
function facts(...pairs) {
  return el('dl', {class: 'facts'}, ...pairs.filter(([, v]) => v !== undefined && v !== '').map(([term, value, wide]) =>
    el('div', {class: wide ? 'full' : undefined}, el('dt', {}, term), el('dd', {}, value))));
}

const reasons = (by) => by && Object.entries(by).sort((a, b) => b[1] - a[1]).map(([reason, n]) => `${reason} ${number(n)}`).join(', ');

function stateOfWatch(w) {
  const kind = w.severity || (w.state === 'Idle' ? 'idle' : 'ok');
  return [kind, w.state === 'Watching' && !w.open ? 'Connecting' : w.state];
}

function stateOfInformer(i) {
  if (i.watches.some((w) => w.severity === 'error')) return ['error', i.synced ? 'Broken' : 'Not synced'];
  if (i.severity === 'error') return ['error', 'Stuck'];
  if (i.watches.every((w) => w.state === 'Idle')) return ['idle', 'Idle'];
  if (i.watches.every((w) => w.state === 'Absent')) return [i.severity || 'idle', 'Absent'];
  return [i.severity || (i.synced ? 'ok' : 'idle'), i.synced ? 'Synced' : 'Syncing'];
}

const history = (w) => [
  el('h3', {}, 'History'),
  w.transitions.length ? el('ol', {class: 'history'}, ...[...w.transitions].reverse().map((t) =>
    el('li', {}, el('span', {class: 'muted'}, clock(t.time)), el('span', {}, t.state), el('span', {class: 'muted'}, t.why ?? ''))))
    : el('p', {class: 'muted'}, 'No transition yet.'),
];

const watchFacts = (w) => facts(
  ['State', `${w.state} for ${ago(w.since) || '0 s'}`],
  ['Waits for', w.awaits === 'nothing' ? '' : w.awaits],
  ['Next attempt', w.retryAt && `in ${seconds(Math.max(0, (Date.parse(w.retryAt) - Date.parse(state.status.time)) / 1000))}`],
  ['Without a watch for', w.noWatchSince && ago(w.noWatchSince)],
  ['Resource version', w.resourceVersion || 'none'],
  ['Version observed', w.resourceVersionTime && `${ago(w.resourceVersionTime)} ago`],
  ['Lists', number(w.lists) + (reasons(w.listsBy) ? `: ${reasons(w.listsBy)}` : '')],
  ['Watches', number(w.watches) + (reasons(w.watchesBy) ? `: ${reasons(w.watchesBy)}` : '')],
  ['Watches are cut after', w.cutAfterSeconds ? seconds(w.cutAfterSeconds) : ''],
  ['Objects of the last list', w.progress || number(w.read)],
  ['Events', number(w.events)],
  ['Received', bytes(w.bytes)],
  ['Failures in a row', number(w.failures)],
  ['Restored', number(w.restored)],
  ['Decode errors', number(w.decodeErrors)],
  ['Stale objects', number(w.stale)],
  ['Last error', failure(w.lastError), true],
  ...(w.warmStart ? warmStartFacts(w.warmStart) : []),
);

const warmStartFacts = (s) => [
  ['Warm start', s.loaded ? `${plural(s.loadedObjects, 'object')}, ${seconds(Math.round(s.loadedAgeSeconds))} old, read in ${seconds(s.loadSeconds)}` : `not used${s.loadFailure ? `: ${s.loadFailure}` : ''}`, true],
  ['Saves', number(s.saves) + (s.saves ? `, the last ${ago(s.savedAt)} ago: ${plural(s.savedObjects, 'object')}, ${bytes(s.savedBytes)}, in ${seconds(s.saveSeconds)}` : ''), true],
  ['Latest save', s.saveFailed && `failed${s.saveFailure ? `: ${s.saveFailure}` : ''}`, true],
];

function durableText(s) {
  if (s.saveFailed) return `cannot be saved${s.saveFailure ? `: ${s.saveFailure}` : ''}`;
  const unknown = s.unknown ? `, ${number(s.unknown)} of them unknown` : '';
  return `${plural(s.acknowledged, 'object')}${unknown}` + (s.saves ? `, ${bytes(s.storedBytes)}, saved ${ago(s.savedAt)} ago` : '');
}

const auditFacts = (a) => facts(
  ['Results', `${number(a.equal)} equal, ${number(a.different)} different, ${number(a.failed)} failed`],
  ['Objects that differed', number(a.differ)],
  ['Last equal', a.lastEqual && `${ago(a.lastEqual)} ago`],
  ['Next', a.next && `in ${until(a.next)}`],
  ['Last result', a.last && `${ago(a.last.time)} ago: ${number(a.last.differ)} of ${plural(a.last.objects, 'object')} differ${a.last.unclear ? `, ${number(a.last.unclear)} unclear` : ''}, at version ${a.last.resourceVersion || 'none'}, ${bytes(a.last.bytes)}, in ${seconds(a.last.tookSeconds)}`, true],
  ['Differences', a.last?.differ ? differences(a.last) : '', true],
  ['Last error', failure(a.lastError), true],
);

function differences(r) {
  if (!r.differences.length) return 'hidden';
  const more = r.differ - r.differences.length;
  return r.differences.map((d) => `${d.key} ${d.kind}`).join(', ') + (more > 0 ? ` and ${number(more)} more` : '');
}

const link = (view, text) => el('a', {href: `#${view}`}, text);
const empty = (title, ...text) => [el('strong', {}, title), ...text];
const code = (text) => el('code', {}, text);

const tables = {
  informers: new Table('informers', [
    {title: 'Resource', cell: (i) => i.member ? `${i.member}: ${i.name}` : i.name},
    {title: 'Objects', number: true, cell: (i) => number(i.objects)},
    {title: 'Memory', number: true, help: 'an estimate', cell: (i) => bytes(i.memoryBytes)},
    {title: 'Events/s', number: true, cell: (i) => ({text: rate(state.rates.get(`events ${i.id}`)), node: spark(`events ${i.id}`)})},
    {title: 'Backlog', number: true, help: 'changes that wait for the slowest handler', cell: (i) => number(i.backlog)},
    {title: 'Lag', number: true, help: 'age of the oldest change that waits for a handler', cell: (i) => i.lag ? seconds(i.lag) : '0'},
    {title: 'Queued', number: true, help: 'changes that wait to enter the store', cell: (i) => bad(i.blocked, number(i.queued))},
    {title: 'Watches open', number: true, cell: (i) => {
      const open = i.watches.filter((w) => w.open).length;
      return bad(i.watches.some((w) => w.severity === 'error'), `${number(open)} of ${number(i.watches.length)}`, 'error');
    }},
    {title: 'Handlers', number: true, cell: (i) => number(i.subscriptions.length)},
    {title: 'Version', number: true, help: 'the resource version up to which the store is complete', mono: true, cell: (i) => i.resourceVersion},
  ], {
    state: stateOfInformer,
    empty: empty('No informers', 'Pass the Status methods of informers and groups as ', code('Config.Informers'), ' and ', code('Config.Groups'), '.'),
    detail: {
      uses: (i) => [...i.watches.map((w) => ago(w.since)), ago(i.audit?.last?.time), ago(i.audit?.lastEqual), i.audit?.next && until(i.audit.next)],
      make: (i) => [
        ...i.watches.flatMap((w) => [el('h3', {}, w.namespace ? `Watch of namespace ${w.namespace}` : 'Watch'), watchFacts(w), ...history(w)]),
        ...(i.audit ? [el('h3', {}, 'Audits'), auditFacts(i.audit)] : []),
        el('h3', {}, 'Subscriptions'),
        i.subscriptions.length ? facts(...i.subscriptions.map((s) => [s.name, `backlog ${number(s.backlog)}${s.busySeconds ? `, busy for ${seconds(s.busySeconds)}` : ''}${s.synced ? '' : ', not synced'}`]))
          : el('p', {class: 'muted'}, 'None.'),
      ],
    },
  }),
  sets: new Table('sets', [
    {title: 'Set', cell: (x) => x.name},
    {title: 'Members', number: true, cell: (x) => number(x.members)},
    {title: 'Synced', number: true, cell: (x) => number(x.states.Synced ?? 0)},
    {title: 'Unsynced', number: true, help: 'members whose first list has failed, or takes long', cell: (x) => bad(x.states.Unsynced, number(x.states.Unsynced ?? 0), x.severity || 'warning')},
    {title: 'Starting', number: true, help: 'members in their first list, or waiting for their turn', cell: (x) => number((x.states.Starting ?? 0) + (x.states.Waiting ?? 0))},
    {title: 'Ended', number: true, cell: (x) => number(x.states.Ended ?? 0)},
    {title: 'With problems', number: true, cell: (x) => bad(x.bad, number(x.bad), x.severity)},
    {title: 'Objects', number: true, cell: (x) => number(x.objects)},
    {title: 'Memory', number: true, help: 'an estimate', cell: (x) => bytes(x.memoryBytes)},
    {title: 'Shown', number: true, help: 'members in the table of informers: those with problems first', cell: (x) => number(state.status.informers.filter((i) => i.set === x.name).length)},
  ], {
    state: (x) => [x.severity || ((x.states.Synced ?? 0) === x.members ? 'ok' : 'idle'), x.severity ? 'Problems' : (x.states.Synced ?? 0) === x.members ? 'Synced' : 'Syncing'],
    empty: empty('No sets', 'Pass the Members methods of sets of informers as ', code('Config.Sets'), '.'),
  }),
  watches: new Table('watches', [
    {title: 'Resource', cell: (w) => w.resource},
    {title: 'Namespace', cell: (w) => w.namespace || 'all'},
    {title: 'For', number: true, help: 'time in this state', cell: (w) => ago(w.since)},
    {title: 'Events/s', number: true, cell: (w) => rate(state.rates.get(`watch ${w.id}`))},
    {title: 'Received', number: true, cell: (w) => bytes(w.bytes)},
    {title: 'Lists', number: true, cell: (w) => number(w.lists)},
    {title: 'Watches', number: true, cell: (w) => number(w.watches)},
    {title: 'Failures', number: true, help: 'consecutive failures', cell: (w) => bad(w.severity === 'error' && w.failures, number(w.failures), 'error')},
    {title: 'Stale', number: true, help: 'objects whose newest version cannot be decoded', cell: (w) => bad(w.stale)},
    {title: 'Restored', number: true, help: 'how often the server went back in time', cell: (w) => number(w.restored)},
    {title: 'Last error', wrap: true, cell: failureCell},
  ], {
    state: stateOfWatch,
    empty: empty('No watches', 'Each informer has a watch for each of its namespaces, or one for all.'),
    detail: {uses: (w) => [ago(w.since), ago(w.lastError?.time)], make: (w) => [watchFacts(w), ...history(w)]},
  }),
  subscriptions: new Table('subscriptions', [
    {title: 'Handler', cell: (s) => s.name},
    {title: 'Resource', wrap: true, cell: (s) => s.resource},
    {title: 'Backlog', number: true, cell: (s) => number(s.backlog)},
    {title: 'Oldest', number: true, help: 'age of the oldest change that waits', cell: (s) => s.oldestSeconds ? seconds(s.oldestSeconds) : '0'},
    {title: 'Busy for', number: true, help: 'time of the current call', cell: (s) => s.busySeconds ? bad(s.severity, seconds(s.busySeconds), s.severity) : '0'},
    {title: 'Slowest call', number: true, cell: (s) => s.calls.count ? seconds(s.calls.maxSeconds) : ''},
    {title: 'Delay, mean / p99', number: true, help: `time from the store to the handler; ${bound}`, cell: (s) => durations(s.delays)},
    {title: 'Call, mean / p99', number: true, help: bound, cell: (s) => durations(s.calls)},
    {title: 'Blocking', cell: (s) => bad(s.blocking, s.blocking ? 'yes' : 'no')},
    {title: 'Durable state', wrap: true, help: 'the objects that the handler has acknowledged', cell: (s) => s.durable ? bad(s.durable.saveFailed, durableText(s.durable)) : ''},
  ], {
    state: (s) => [s.severity || (s.synced ? 'ok' : 'idle'), s.severity ? 'Slow' : s.synced ? 'Synced' : 'Syncing'],
    empty: empty('No subscriptions', 'A handler that subscribes to an informer appears here.'),
  }),
  queues: new Table('queues', [
    {title: 'Queue', cell: (q) => q.name},
    {title: 'Ready', number: true, cell: (q) => number(q.ready)},
    {title: 'High / normal / low', number: true, help: 'ready keys by priority', cell: (q) => ({text: [q.high, q.normal, q.low].map(number).join(' / '), class: q.ready ? '' : 'zero'})},
    {title: 'Delayed', number: true, cell: (q) => number(q.delayed)},
    {title: 'In work', number: true, cell: (q) => number(q.inWork)},
    {title: 'Longest in work', number: true, cell: (q) => q.longestRunningSeconds ? bad(q.severity, seconds(q.longestRunningSeconds), q.severity) : '0'},
    {title: 'Added/s', number: true, cell: (q) => ({text: rate(state.rates.get(`adds ${q.id}`)), node: spark(`adds ${q.id}`)})},
    {title: 'Wait, mean / p99', number: true, help: `time from ready to handed out; ${bound}`, cell: (q) => durations(q.waits)},
    {title: 'Work, mean / p99', number: true, help: `time from handed out to done; ${bound}`, cell: (q) => durations(q.works)},
  ], {
    state: (q) => q.severity ? [q.severity, 'Slow'] : [q.state === 'Open' ? 'ok' : 'idle', q.state],
    empty: empty('No queues', 'A controller has its queue here. Pass the Status methods of other queues as ', code('Config.Queues'), '.'),
    detail: {make: (q) => [facts(
      ['Controller', q.controller || 'none'],
      ['Oldest ready key', q.longestReadySeconds ? `ready for ${seconds(q.longestReadySeconds)}` : 'none'],
      ['All keys in work', `${seconds(q.unfinishedSeconds)} together`],
      ['Added', number(q.adds)],
      ['Retries', number(q.retries)],
      ['Refused', number(q.refused)],
      ['Waiting for this replica', number(q.awaited)],
      ['Dropped for other replicas', number(q.foreign)],
      ['Longest wait', q.waits.count ? seconds(q.waits.maxSeconds) : 'none'],
      ['Key that is longest in work', q.longestRunningKey],
      ['Longest work', q.works.count ? seconds(q.works.maxSeconds) : 'none'],
    )]},
  }),
  controllers: new Table('controllers', [
    {title: 'Controller', cell: (c) => c.name},
    {title: 'Active', number: true, help: 'calls of Reconcile under way', cell: (c) => `${number(c.active)} of ${number(c.workers)}`},
    {title: 'Reconciles/s', number: true, cell: (c) => ({text: rate(state.rates.get(`calls ${c.id}`)), node: spark(`calls ${c.id}`)})},
    {title: 'Time, mean / p99', number: true, help: bound, cell: (c) => durations(c.reconciles)},
    {title: 'Succeeded', number: true, cell: (c) => number(c.succeeded)},
    {title: 'Requeued after', number: true, cell: (c) => number(c.requeuedAfter)},
    {title: 'Backed off', number: true, cell: (c) => number(c.backedOff)},
    {title: 'Failed', number: true, cell: (c) => number(c.failed)},
    {title: 'Terminal', number: true, help: 'failed with a TerminalError', cell: (c) => number(c.terminal)},
    {title: 'Panicked', number: true, cell: (c) => bad(c.panicked)},
    {title: 'Failing keys', number: true, help: 'keys whose latest call failed', cell: (c) => bad(c.severity && c.failing, number(c.failing), c.severity)},
    {title: 'Last error', wrap: true, cell: failureCell},
  ], {
    state: (c) => c.severity ? [c.severity, 'Failing'] : c.running ? ['ok', 'Running'] : ['idle', 'Not running'],
    detail: {uses: (c) => [ago(c.lastSuccess), ago(c.lastError?.time), (c.failingKeys ?? []).map((k) => ago(k.since))], make: (c) => [
      facts(
        ['Last success', c.lastSuccess ? `${ago(c.lastSuccess)} ago` : 'never'],
        ['Key of the last error', c.lastErrorKey],
        ['Last error', failure(c.lastError), true],
      ),
      el('h3', {}, 'Keys that fail, the longest first'),
      c.failing === 0 ? el('p', {class: 'muted'}, 'None.')
        : !c.failingKeys ? el('p', {class: 'muted'}, `${plural(c.failing, 'key')}. Only callers whom Config.Authorize admits see which.`)
          : el('ul', {class: 'entries'}, ...c.failingKeys.map((k) => el('li', {}, `${k.key}: ${plural(k.failures, 'failure')} in ${ago(k.since)}`)),
            ...(c.failing > c.failingKeys.length ? [el('li', {class: 'muted'}, `and ${number(c.failing - c.failingKeys.length)} more`)] : [])),
    ]},
    empty: empty('No controllers', 'Pass the Status methods of controllers as ', code('Config.Controllers'), '.'),
  }),
  clients: new Table('clients', [
    {title: 'API server', cell: (c) => c.host},
    {title: 'Requests/s', number: true, cell: (c) => ({text: rate(state.rates.get(`requests ${c.id}`)), node: spark(`requests ${c.id}`)})},
    {title: 'Requests', number: true, cell: (c) => number(sum(c.requests, (r) => r.count))},
    {title: 'Failed, 5 min', number: true, help: 'requests of the last five minutes without a response, or with the status 401, 403, 429 or 5xx', cell: (c) => bad(c.severity && c.recentFailures, `${number(c.recentFailures)} of ${number(c.recentRequests)}`, c.severity)},
    {title: 'Errors', number: true, help: 'codes from 400, and requests without a response', cell: (c) => number(sum(c.requests, (r) => r.code === 0 || r.code >= 400 ? r.count : 0))},
    {title: 'Last error', wrap: true, cell: failureCell},
    {title: 'Latency, mean / p99', number: true, help: `time to the header of the response; ${bound}`, cell: (c) => durations(merged(Object.values(c.latencies)))},
    {title: 'Throttled, mean / p99', number: true, help: `time that requests waited for the client's own rate limit; ${bound}`, cell: (c) => durations(c.throttled)},
  ], {
    state: (c) => c.severity ? [c.severity, 'Failing'] : c.recentRequests || c.lastSuccess ? ['ok', 'OK'] : ['idle', 'Idle'],
    empty: empty('No clients', 'Pass the Status methods of clients as ', code('Config.Clients'), '.'),
    detail: {uses: (c) => [ago(c.lastSuccess), ago(c.lastError?.time)], make: (c) => [
      facts(['Last success', c.lastSuccess ? `${ago(c.lastSuccess)} ago` : 'never'], ['Last error', failure(c.lastError), true]),
      el('h3', {}, 'Requests by method and code'),
      facts(...c.requests.map((r) => [`${r.method} ${r.code || 'without a response'}`, number(r.count)])),
      el('h3', {}, 'Latency by method, mean / p99'),
      facts(...Object.entries(c.latencies).map(([method, d]) => [method, `${durations(d)}, at most ${seconds(d.maxSeconds)}`])),
    ]},
  }),
  replicas: new Table('replicas', [
    {title: 'Group', cell: (r) => r.group},
    {title: 'Identity', cell: (r) => r.identity},
    {title: 'Replicas', number: true, cell: (r) => number(r.replicas.length)},
    {title: 'Owned', number: true, help: 'slots whose keys this replica reconciles', cell: (r) => bad(r.severity, number(r.owned), r.severity)},
    {title: 'Planned', number: true, help: 'slots that this replica should have', cell: (r) => number(r.planned)},
    {title: 'Slots', number: true, help: 'slots of the group', cell: (r) => number(r.slots)},
    {title: 'Renewed', number: true, help: 'time since the last successful renewal of the lease', cell: (r) => r.renewed ? `${ago(r.renewed)} ago` : 'never'},
    {title: 'Leases lost', number: true, cell: (r) => number(r.leasesLost)},
    {title: 'Last error', wrap: true, cell: failureCell},
  ], {
    state: (r) => [r.severity || (r.state === 'Member' ? 'ok' : 'idle'), r.state],
    empty: empty('No replicas', 'Pass the Status methods of replicas that share objects as ', code('Config.Replicas'), '.'),
    detail: {uses: (r) => [ago(r.lastError?.time), ...r.overdue.map((c) => ago(c.since))], make: (r) => [
      facts(
        ['Slots held', `${number(r.held)}: the informers have their objects`],
        ['Slots claimed', `${number(r.claimed)}: owned, awaited or being released`],
        ['Slots left to others', `${number(r.yielded)}: the informers cannot list their objects`],
        ['Overdue calls', r.overdue.map((c) => `${c.key || 'a key'} for ${ago(c.since)}`).join(', ') || 'none'],
        ['Slots gained', number(r.gained)],
        ['Slots handed over', number(r.released)],
        ['Slots lost', `${number(r.lost)} with ${plural(r.leasesLost, 'lease')}`],
        ['Last error', failure(r.lastError), true],
      ),
      el('h3', {}, 'Replicas of the group'),
      el('ul', {}, ...r.replicas.map((identity) => el('li', {}, identity === r.identity ? `${identity} (this one)` : identity))),
    ]},
  }),
  managers: new Table('managers', [
    {title: 'Manager', cell: (m) => m.id},
    {title: 'For', number: true, help: 'time in this state', cell: (m) => ago(m.since)},
    {title: 'Leader-only tasks', cell: (m) => m.leading ? 'may run' : 'wait'},
    {title: 'Tasks running', number: true, cell: (m) => `${number(m.tasks.filter((t) => t.state === 'Running').length)} of ${number(m.tasks.length)}`},
    {title: 'Deadline of the stop', number: true, cell: (m) => m.stopBy ? `in ${until(m.stopBy)}` : ''},
    {title: 'Failure', wrap: true, cell: (m) => m.failure ? {text: m.failure.text || m.failure.class, class: 'bad error'} : ''},
  ], {
    state: (m) => [m.severity || (m.state === 'Running' ? 'ok' : 'idle'), m.state],
    empty: empty('No managers', 'Pass the Status methods of managers as ', code('Config.Managers'), '.'),
    detail: {uses: (m) => m.tasks.map((t) => ago(t.since)), make: (m) => [
      el('h3', {}, 'Tasks, in the order of their start'),
      el('ol', {class: 'history'}, ...m.tasks.map((t) => el('li', {}, el('span', {}, t.state), el('span', {class: 'muted'}, ago(t.since)),
        el('span', {}, `${t.name}, ${t.phase}${t.failure ? `: ${t.failure.text || t.failure.class}` : ''}`)))),
    ]},
  }),
  electors: new Table('electors', [
    {title: 'Lease', cell: (e) => e.lease},
    {title: 'For', number: true, help: 'time in this state', cell: (e) => ago(e.since)},
    {title: 'This replica', wrap: true, cell: (e) => e.identity},
    {title: 'Holder', wrap: true, help: 'the identity in the Lease', cell: (e) => e.holder === e.identity && e.holder ? 'this replica' : e.holder || 'nobody'},
    {title: 'Renewed', number: true, help: 'time since the last successful renewal', cell: (e) => e.renewed ? `${ago(e.renewed)} ago` : 'never'},
    {title: 'Terms', number: true, help: 'how often this replica has taken the lease', cell: (e) => number(e.terms)},
    {title: 'Lost', number: true, help: 'how often this replica has lost the lease', cell: (e) => number(e.lost)},
    {title: 'Last error', wrap: true, cell: failureCell},
  ], {
    state: (e) => [e.severity || (e.state === 'Leading' ? 'ok' : 'idle'), e.state],
    empty: empty('No electors', 'Managers have their elector here. Pass the Status methods of others as ', code('Config.Electors'), '.'),
    detail: {uses: (e) => [ago(e.lastError?.time)], make: (e) => [facts(
      ['Work ends when the lease is', `${seconds(e.renewDeadlineSeconds)} old`],
      ['Time to return', seconds(e.graceSeconds)],
      ['Must have returned', e.stopBy && `in ${until(e.stopBy)}`],
      ['Last error', failure(e.lastError), true],
    )]},
  }),
};

// ---- Overview ---------------------------------------------------------------------------------------------------------

const viewOf = {informer: 'informers', set: 'sets', watch: 'watches', subscription: 'subscriptions', queue: 'queues', controller: 'controllers', client: 'clients', replica: 'replicas', manager: 'managers', elector: 'electors'};
const shownProblems = 20;

function drawOverview(s) {
  const version = JSON.stringify(s.problems);
  replace($('problems'), version, () => {
    if (s.problems.length === 0) return [el('div', {class: 'empty ok'}, shape('ok'), el('span', {}, 'Nothing is wrong.'))];
    const rest = s.problems.length - shownProblems;
    return [el('ul', {class: 'problems'}, ...s.problems.slice(0, shownProblems).map((p, n) => el('li', {class: p.severity},
      el('span', {class: `state ${p.severity}`}, shape(p.severity), p.severity === 'error' ? 'Error' : 'Warning'),
      el('span', {class: 'what'}, el('a', {href: `#${viewOf[p.kind]}`, 'data-focus': n}, p.name), ' ', el('span', {class: 'kind'}, p.kind)),
      el('span', {}, p.message, p.detail ? el('span', {class: 'kind'}, ` (${p.detail})`) : undefined))), ...(rest > 0 ? [el('li', {class: 'more'}, `and ${number(rest)} more`)] : []))];
  });
  const alone = s.informers.filter((i) => !i.set), whole = [...alone, ...s.sets];
  const watches = sum(alone, (i) => i.watches.length) + sum(s.sets, (x) => x.watches);
  const open = sum(alone, (i) => i.watches.filter((w) => w.open).length) + sum(s.sets, (x) => x.open);
  const tiles = [
    ['Informers', number(alone.length), `${number(alone.filter((i) => i.synced).length)} synced`, 'informers'],
    ...(s.sets.length ? [['Members of sets', number(sum(s.sets, (x) => x.members)), `${number(sum(s.sets, (x) => x.states.Synced))} synced`, 'sets']] : []),
    ['Objects', number(sum(whole, (x) => x.objects)), `about ${bytes(sum(whole, (x) => x.memoryBytes))}`, 'informers'],
    ['Watches', number(watches), `${number(open)} open`, 'watches'],
    ['Subscriptions', number(s.subscriptions.length), `backlog ${number(sum(s.subscriptions, (x) => x.backlog))}`, 'subscriptions'],
    ['Queues', number(s.queues.length), `${number(sum(s.queues, (q) => q.ready))} ready, ${number(sum(s.queues, (q) => q.inWork))} in work`, 'queues'],
    ['Controllers', number(s.controllers.length), `${number(s.controllers.filter((c) => c.running).length)} running`, 'controllers'],
    ...(s.electors.length ? [['Leadership', s.electors.every((e) => e.state === 'Leading') ? 'Leads' : s.electors.some((e) => e.state === 'Leading') ? 'Leads some' : 'Does not lead', s.electors.length === 1 ? `holder ${s.electors[0].holder || 'nobody'}` : plural(s.electors.length, 'elector'), 'electors']] : []),
    ['Goroutines', number(s.process.goroutines), `${bytes(s.process.totalBytes)} of memory`, ''],
  ];
  replace($('tiles'), JSON.stringify(tiles), () => tiles.map(([label, value, note, view]) => el('li', {},
    el('div', {class: 'label'}, view ? el('a', {href: `#${view}`, 'data-focus': label}, label) : label), el('div', {class: 'value'}, value), el('div', {class: 'note'}, note))));
  drawCharts();
}

// ---- Navigation -------------------------------------------------------------------------------------------------------

const views = [
  ['overview', 'Overview'], ['informers', 'Informers'], ['sets', 'Sets'], ['watches', 'Watches'], ['subscriptions', 'Subscriptions'],
  ['queues', 'Queues'], ['controllers', 'Controllers'], ['clients', 'Clients'], ['replicas', 'Replicas'], ['managers', 'Managers'], ['electors', 'Electors'], ['objects', 'Objects'],
];
let view = 'overview';

function route() {
  const wanted = location.hash.slice(1).split('?')[0];
  view = views.some(([id]) => id === wanted) ? wanted : 'overview';
  for (const [id] of views) $(`view-${id}`).hidden = id !== view;
  for (const a of $('nav').querySelectorAll('a')) {
    if (a.dataset.view === view) {
      a.setAttribute('aria-current', 'page');
      a.parentNode.scrollIntoView({block: 'nearest', inline: 'nearest'});
    } else a.removeAttribute('aria-current');
  }
  draw();
}

function drawNav(s) {
  const worst = (list) => list.reduce((w, x) => badness[x.severity ?? ''] > badness[w] ? x.severity : w, '');
  const lists = {informers: s.informers, sets: s.sets, watches: s.watches, subscriptions: s.subscriptions, queues: s.queues, controllers: s.controllers, clients: s.clients, replicas: s.replicas, managers: s.managers, electors: s.electors};
  for (const a of $('nav').querySelectorAll('a')) {
    const list = lists[a.dataset.view];
    if (!list) continue;
    const severity = worst(list), n = list.filter((x) => x.severity).length;
    const count = a.lastElementChild;
    const name = `count ${severity}`.trim();
    if (count.className !== name) count.className = name;
    setText(count, n ? `${number(n)} of ${number(list.length)}` : number(list.length));
    setAttribute(a, 'aria-label', n ? `${a.firstChild.textContent}, ${plural(n, 'problem')} in ${number(list.length)}` : `${a.firstChild.textContent}, ${number(list.length)}`);
  }
}

function drawHealth(s) {
  const errors = s.problems.filter((p) => p.severity === 'error').length, warnings = s.problems.length - errors;
  const kind = state.lost ? 'unknown' : errors ? 'error' : warnings ? 'warning' : 'ok';
  const text = state.lost ? 'Unknown' : [errors ? plural(errors, 'error') : '', warnings ? plural(warnings, 'warning') : ''].filter(Boolean).join(', ') || 'Healthy';
  $('health').className = `badge ${kind}`;
  replace($('health'), `${kind} ${text}`, () => [shape(state.lost ? 'idle' : kind), text]);
  const title = `${state.lost ? '(?) ' : errors || warnings ? `(${errors + warnings}) ` : ''}${s.name} informers`;
  if (document.title !== title) document.title = title;
}

function draw() {
  const s = state.status;
  if (!s) return;
  setText($('name'), s.name);
  setText($('updated'), `${state.lost ? 'no answer since' : state.paused ? 'paused at' : 'updated'} ${clock(s.time)}`);
  drawHealth(s);
  drawNav(s);
  if (view === 'overview') drawOverview(s);
  else if (view === 'objects') drawObjects(s);
  else tables[view].draw(s[view]);
}

// ---- Requests ---------------------------------------------------------------------------------------------------------

let token = ''; // of the caller; only in memory

async function get(file, query) {
  const response = await fetch(query ? `${file}?${new URLSearchParams(query)}` : file, {
    cache: 'no-store', credentials: 'same-origin', signal: AbortSignal.timeout(patience), headers: token ? {Authorization: `Bearer ${token}`} : {},
  });
  const text = await response.text();
  let answer;
  try {
    // Numbers that JavaScript cannot hold stay as they are.
    answer = JSON.parse(text, (_, v, context) => typeof v === 'number' && !Number.isSafeInteger(v) && Number.isInteger(v) && JSON.rawJSON ? JSON.rawJSON(context.source) : v);
  } catch {
    throw new Error(`the answer is no JSON (HTTP ${response.status})`);
  }
  if (!response.ok) throw new Error(answer.error?.message ?? `HTTP ${response.status}`);
  return answer;
}

// ---- Objects ----------------------------------------------------------------------------------------------------------

// The fragment of the URL has what is shown, so that a link leads to a store, a key or an object, and the back button works:
// #objects?store=…&index=…&key=…&match=…&from=…&namespace=…&name=…
const browse = {store: '', index: '', match: '', from: '', compared: 0, page: undefined, keyed: false, key: '', named: false, namespace: '', name: ''};

// linkTo returns the fragment for what is shown now with a change. An undefined value removes a part.
function linkTo(change) {
  const parts = new URLSearchParams(location.hash.split('?')[1]);
  for (const [name, value] of Object.entries(change)) {
    if (value === undefined) parts.delete(name);
    else parts.set(name, value);
  }
  return `#objects?${parts}`;
}

const noObject = {namespace: undefined, name: undefined};
const go = (change) => { location.hash = linkTo(change); };

function drawObjects(s) {
  const none = !s.authorized ? empty('Objects are hidden', 'Only callers whom ', code('Config.Authorize'), ' admits see objects, their keys and the text of errors.')
    : s.stores.length === 0 ? empty('No stores', 'Pass informers as ', code('Config.Objects'), ' to show their objects.') : undefined;
  $('browse').hidden = Boolean(none);
  $('sign-in').hidden = s.authorized || !s.canAuthorize;
  replace($('objects-empty'), none ? `${s.authorized}` : 'shown', () => none ? [el('div', {class: 'empty'}, ...none)] : []);
  if (none) return;
  replace($('store'), JSON.stringify(s.stores), () => s.stores.map((x) => el('option', {value: x.name}, x.name)));
  if (browse.shown !== location.hash) showObjects(s);
}

// showObjects shows what the fragment says.
function showObjects(s) {
  const parts = new URLSearchParams(location.hash.split('?')[1]);
  const part = (name) => parts.get(name) ?? '';
  const list = (x) => JSON.stringify([x.store, x.index, x.keyed, x.key, x.match, x.from]);
  const before = list(browse), first = browse.shown === undefined;
  const wanted = part('store');
  Object.assign(browse, {
    shown: location.hash, store: wanted || s.stores[0].name, index: part('index'), keyed: parts.has('key'), key: part('key'), match: part('match'), from: part('from'), named: parts.has('name'),
    namespace: part('namespace'), name: part('name'), compared: Number(part('compared')) || 0,
  });
  const store = s.stores.find((x) => x.name === browse.store);
  $('store').value = browse.store;
  replace($('index'), JSON.stringify(store ?? {}), () => [el('option', {value: ''}, 'object key'),
    ...(store?.indexes ?? []).map((x) => el('option', {value: `index ${x}`, disabled: store.indexesHidden}, `index ${x}${store.indexesHidden ? ' (masked)' : ''}`))]);
  $('index').value = browse.index ? `index ${browse.index}` : '';
  if ($('match').value !== browse.match) $('match').value = browse.match;
  if (first || list(browse) !== before) loadPage();
  else mark();
  if (browse.named) loadObject();
  else hideObject();
}

// mark marks the object that is shown in the list.
function mark() {
  for (const a of $('list').querySelectorAll('a')) {
    if (browse.named && a.dataset.object === JSON.stringify([browse.namespace, browse.name])) a.setAttribute('aria-current', 'true');
    else a.removeAttribute('aria-current');
  }
}

let loading = 0; // the number of the last load; answers to older ones are dropped

async function loadPage() {
  const turn = ++loading;
  const query = {store: browse.store, match: browse.match, limit: 100};
  if (browse.from) query.continue = browse.from;
  const keys = browse.index && !browse.keyed;
  if (browse.index) query.index = browse.index;
  if (browse.keyed) query.key = browse.key;
  setText($('list-title'), keys ? `Keys of index ${browse.index}` : browse.keyed ? `Objects with ${browse.index} = ${browse.key || '(empty)'}` : 'Objects');
  $('up').hidden = !browse.keyed;
  try {
    const page = await get(keys ? 'keys.json' : 'objects.json', query);
    if (turn !== loading) return;
    const items = keys ? page.keys.map(keyLink) : page.objects.map(objectLink);
    $('list').replaceChildren(...items.map((a) => el('li', {}, a)));
    $('list').scrollTop = 0;
    browse.page = page;
    const searched = !keys && browse.match && (page.continue || browse.from); // a search that needs several answers
    const compared = browse.compared + (page.compared ?? 0);
    setText($('list-note'), [
      items.length ? `${plural(items.length, keys ? 'key' : 'object')}${page.continue || browse.from ? ' on this page' : ''}` : searched ? (page.continue ? 'Nothing found yet' : 'Nothing found here') : 'Nothing here',
      searched ? `looked at ${number(compared)}${browse.keyed ? ' objects' : ` of ${plural(page.total, 'object')}`}` : '',
    ].filter(Boolean).join(': '));
    $('first').hidden = !browse.from;
    $('next').hidden = !page.continue;
    setText($('next'), searched ? 'Continue the search' : 'Next page');
    mark();
  } catch (e) {
    if (turn !== loading) return;
    $('list').replaceChildren();
    setText($('list-note'), e.message);
    $('first').hidden = !browse.from;
    $('next').hidden = true;
  }
}

const firstPage = {from: undefined, compared: undefined};

function keyLink(k) {
  return el('a', {href: linkTo({store: browse.store, key: k.key, match: undefined, ...firstPage, ...noObject})},
    el('span', {}, k.key || '(empty)'), el('span', {class: 'n'}, `${number(k.objects)}${k.more ? '+' : ''}`));
}

function objectLink(k) {
  return el('a', {href: linkTo({store: browse.store, namespace: k.namespace, name: k.name}), 'data-object': JSON.stringify([k.namespace, k.name])},
    el('span', {}, k.namespace ? `${k.namespace}/${k.name}` : k.name));
}

let objectTurn = 0;

function hideObject() {
  objectTurn++;
  setText($('object-title'), 'Object');
  setText($('object-note'), 'Choose an object.');
  setText($('object'), '');
  $('object').hidden = $('reload').hidden = $('copy').hidden = true;
}

async function loadObject() {
  const turn = ++objectTurn;
  const {store, namespace, name} = browse;
  setText($('object-title'), namespace ? `${namespace}/${name}` : name);
  let note = '', text = '';
  try {
    const answer = await get('object.json', {store, namespace, name});
    text = JSON.stringify(answer.object, null, 2);
    note = `${state.status ? `Read at ${clock(Date.now())}. ` : ''}${answer.masked ? 'Values are masked.' : ''}`.trim();
  } catch (e) {
    note = e.message;
  }
  if (turn !== objectTurn) return;
  setText($('object-note'), note);
  setText($('object'), text);
  $('object').hidden = !text;
  $('reload').hidden = $('copy').hidden = false;
  setText($('copy'), 'Copy link');
}

$('search').addEventListener('submit', (e) => {
  e.preventDefault();
  go({store: browse.store, match: $('match').value || undefined, ...firstPage});
});
$('store').addEventListener('change', () => { location.hash = `#objects?${new URLSearchParams({store: $('store').value})}`; });
$('index').addEventListener('change', () => go({store: browse.store, index: $('index').value.replace(/^index /, '') || undefined, key: undefined, ...firstPage, ...noObject}));
$('up').addEventListener('click', () => { go({key: undefined, match: undefined, ...firstPage, ...noObject}); $('index').focus(); });
$('first').addEventListener('click', () => { go(firstPage); $('match').focus(); });
$('next').addEventListener('click', () => { go({store: browse.store, from: browse.page.continue, compared: browse.match && browse.page.compared ? browse.compared + browse.page.compared : undefined}); });
$('reload').addEventListener('click', loadObject);
$('copy').addEventListener('click', async () => {
  try {
    await navigator.clipboard.writeText(location.href); // only in a secure context
    setText($('copy'), 'Copied');
  } catch {
    setText($('object-note'), location.href);
  }
});
$('sign-in').addEventListener('submit', async (e) => {
  e.preventDefault();
  if (!isSecureContext) { // the network could read the token
    setText($('sign-note'), 'Tokens are sent only by HTTPS or to localhost: use kubectl port-forward.');
    return;
  }
  token = $('token').value.trim();
  $('token').value = '';
  setText($('sign-note'), '');
  browse.shown = undefined;
  await poll(true);
  if (!state.lost && !state.status.authorized) {
    token = '';
    setText($('sign-note'), 'Config.Authorize does not admit this token.');
  }
});

// ---- Polling ----------------------------------------------------------------------------------------------------------

let timer, polling = false, failures = 0;

// poll reads the status. With now, it does that while the page is paused, too.
async function poll(now = false) {
  clearTimeout(timer);
  if (polling || !now && (state.paused || document.hidden)) return;
  polling = true;
  try {
    const answer = await get('status.json');
    state.status = prepare(answer);
    failures = 0;
    state.lost = false;
    $('offline').hidden = true;
    draw();
  } catch (e) {
    failures++;
    state.lost = true;
    setText($('offline'), `No new data since ${state.status ? clock(state.status.time) : 'the start'}: ${e.message}. Everything below is from then. The page tries again.`);
    $('offline').hidden = false;
    if (state.status) draw();
    else replace($('health'), 'lost', () => [shape('idle'), 'Unknown']);
  } finally {
    polling = false;
    timer = setTimeout(poll, Math.min(period * 2 ** failures, 30_000));
  }
}

document.addEventListener('visibilitychange', () => { if (!document.hidden) poll(); });
$('pause').addEventListener('click', () => {
  state.paused = !state.paused;
  setAttribute($('pause'), 'aria-pressed', String(state.paused));
  draw();
  poll();
});
$('skip').addEventListener('click', (e) => { e.preventDefault(); $('main').focus(); });
for (const [id, title] of views) {
  $('nav').append(el('li', {}, el('a', {href: `#${id}`, 'data-view': id}, title, el('span', {class: 'count'}))));
}
window.addEventListener('hashchange', () => {
  const before = view;
  route();
  if (view !== before) window.scrollTo(0, 0);
});
route();
poll();
