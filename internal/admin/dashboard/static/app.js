// What pages do once they are there: times run, and what changes is asked for anew.
// Without this file they show the same, as of when they were made.

const root = document.documentElement
const main = document.getElementById('main')
root.classList.add('scripted')

// Times on a page are the gateway's. skew is how far its clock is ahead of ours, as of
// when the answer began to arrive.
const navigation = performance.getEntriesByType('navigation')[0]
let skew = Number(root.dataset.now) - (performance.timeOrigin + (navigation?.responseStart ?? 0))
const now = () => performance.timeOrigin + performance.now() + skew

function ago(ms) {
  const s = Math.floor(ms / 1000)
  if (s < 1) return 'just now'
  if (s < 60) return `${s} s ago`
  if (s < 3600) return `${Math.floor(s / 60)} min ago`
  if (s < 48 * 3600) return `${Math.floor(s / 3600)} h ago`
  return `${Math.floor(s / 86400)} days ago`
}

function left(ms) {
  const s = ms / 1000
  if (s < 60) return `${(Math.ceil(s * 10) / 10).toFixed(1)} s`
  if (s < 3600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`
  return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`
}

const say = (element, text) => { if (element.textContent !== text) element.textContent = text }

function tick() {
  for (const element of document.querySelectorAll('[data-until]')) {
    const ms = Number(element.dataset.until) - now()
    say(element, ms > 0 ? left(ms) : 'run out')
    element.classList.toggle('low', ms > 0 && ms < 5000)
    element.classList.toggle('over', ms <= 0)
  }
  for (const element of document.querySelectorAll('[data-ago]')) say(element, ago(now() - Number(element.dataset.ago)))
}

// morph makes from into to, and keeps what is the same: the focus stays where it is.
function morph(from, to) {
  if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName || from.id !== to.id) {
    from.replaceWith(to)
    return
  }
  if (from.nodeType !== Node.ELEMENT_NODE) {
    if (from.data !== to.data) from.data = to.data
    return
  }
  for (const { name } of [...from.attributes]) if (!to.hasAttribute(name)) from.removeAttribute(name)
  for (const { name, value } of to.attributes) if (from.getAttribute(name) !== value) from.setAttribute(name, value)
  const wanted = [...to.childNodes]
  wanted.forEach((child, i) => {
    const known = child.id && [...from.children].find(c => c.id === child.id)
    if (known && known !== from.childNodes[i]) from.insertBefore(known, from.childNodes[i])
    const there = from.childNodes[i]
    if (there && (known || !there.id)) return morph(there, child)
    if (child.nodeName === 'TR' && child.id) child.classList.add('fresh')
    from.insertBefore(child, there ?? null)
  })
  while (from.childNodes.length > wanted.length) from.lastChild.remove()
}

const lost = document.getElementById('lost')
const lostSince = document.getElementById('lost-since')
function connected(is) {
  if (!is && lost.hidden) say(lostSince, document.querySelector('#asof time').textContent.slice(11))
  lost.hidden = is
}

let asking = false, again = false
async function refresh() {
  if (asking) { again = true; return }
  asking = true
  try {
    const answer = await fetch(location.href, { headers: { Accept: 'text/html' }, signal: AbortSignal.timeout(8000) })
    const began = performance.timeOrigin + performance.now()
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html')
    if (!page.querySelector('[data-region]')) throw new Error(`answered ${answer.status}`)
    skew = Number(page.documentElement.dataset.now) - began
    for (const region of document.querySelectorAll('[data-region]')) {
      const next = page.getElementById(region.id)
      if (next) morph(region, document.adoptNode(next))
    }
    connected(true)
    tick()
  } catch {
    connected(false)
  }
  asking = false
  if (again) { again = false; setTimeout(refresh, 500) }
}

const live = Number(main.dataset.live)
if (live) setInterval(() => { if (!document.hidden) refresh() }, live)

// A page that follows is told when to look.
function follow(address) {
  const stream = new EventSource(address)
  stream.addEventListener('refusals', event => {
    say(document.getElementById('said'), `${event.data} new refusals`)
    refresh()
  })
  stream.addEventListener('open', refresh)
  stream.addEventListener('error', () => {
    connected(false)
    if (stream.readyState === EventSource.CLOSED) setTimeout(follow, 3000, address)
  })
}
if (main.dataset.follow) follow(main.dataset.follow)

// Filters that say nothing need not stand in the address.
for (const form of document.querySelectorAll('form[method=get]')) {
  form.addEventListener('formdata', event => {
    for (const [name, value] of [...event.formData]) if (value === '') event.formData.delete(name)
  })
}

tick()
setInterval(tick, 100)
