// Searches the sections of all pages. index.json, which Hugo writes, has them; the first search loads it. A link with
// ?q=words shows what a search for them finds.
const script = document.currentScript
const query = document.getElementById('query'), found = document.getElementById('found')
let sections
query.addEventListener('input', search)
query.value = new URLSearchParams(location.search).get('q') ?? ''
if (query.value) search()

async function search() {
  sections ??= fetch(script.dataset.index).then(response => response.json())
  const all = await sections
  const words = query.value.toLowerCase().split(/\s+/).filter(word => word.length > 1)
  const hits = words.length ? all.map(s => ({ s, score: score(s, words) })).filter(hit => hit.score > 0) : []
  hits.sort((a, b) => b.score - a.score)
  found.replaceChildren(...hits.slice(0, 12).map(({ s }) => item(s, words)))
  found.hidden = words.length === 0
  if (words.length && !hits.length) found.textContent = 'nothing found'
}

// score is zero unless a section has every word. Words in titles count more.
function score(section, words) {
  let sum = 0
  for (const word of words) {
    const title = section.title.toLowerCase().includes(word), page = section.page.toLowerCase().includes(word)
    const text = section.text.toLowerCase().split(word).length - 1
    if (!title && !page && !text) return 0
    sum += 10 * title + 3 * page + Math.min(text, 5)
  }
  return sum
}

function item(section, words) {
  const li = document.createElement('li'), a = document.createElement('a'), small = document.createElement('small')
  const root = new URL(script.dataset.index, location.href)
  a.href = new URL(section.url.replace(/^\//, './'), root)
  a.textContent = section.title.replace(/ #$/, '')
  const at = Math.max(0, section.text.toLowerCase().indexOf(words[0]) - 40)
  small.textContent = section.page + ': … ' + section.text.slice(at, at + 120).trim() + ' …'
  li.append(a, small)
  return li
}
