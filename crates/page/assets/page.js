// What the page can do beyond reading: count what is new, and keys. It makes no markup; every page works without it.
const live = document.getElementById('live');
let pill, feed, clients, follows;
const title = document.title;
let last = Number(document.body.dataset.last);
let fresh = 0, source = null, pause = 1000, timer = 0, minute = 0;

const say = (text, lost) => { if (live.textContent !== text) live.textContent = text; live.classList.toggle('lost', lost); };

// What belongs to the content, which may be replaced.
const begin = () => {
  [pill, feed, clients, follows] = ['pill', 'feed', 'clients', 'follows'].map(id => document.getElementById(id));
  pill?.addEventListener('click', event => { if (!event.ctrlKey && !event.metaKey && !event.shiftKey) { event.preventDefault(); swap(pill.href); } });
  // A call that runs is looked at again until it is over.
  if (document.querySelector('[data-running]')) setTimeout(() => swap(location.href, true), 400);
  for (const button of document.querySelectorAll('[data-copy]')) {
    button.hidden = false;
    button.addEventListener('click', () => navigator.clipboard.writeText(button.dataset.copy).then(() => { button.textContent = 'Copied'; }));
  }
};

// The same question as the server's filter asks, as far as a headline tells.
const fits = change => !feed || (
  (!feed.dataset.server || feed.dataset.server === change.server)
  && (!feed.dataset.kind || feed.dataset.kind === change.kind)
  && (!feed.dataset.severity || feed.dataset.severity === change.severity)
  && (!feed.dataset.text || change.names.join(' ').toLowerCase().includes(feed.dataset.text.toLowerCase())));

const count = changes => {
  for (const change of changes) if (change.seq > last) { last = change.seq; if (fits(change)) fresh += 1; }
  if (!fresh) return;
  document.title = `(${fresh}) ${title}`;
  if (pill && feed) { pill.textContent = fresh === 1 ? '1 new change' : `${fresh} new changes`; pill.hidden = false; }
  else say(`● live · ${fresh} new`, false);
};

// Numbers and states change in their places; nothing comes or goes.
const put = (place, text) => { if (place && place.textContent !== text) place.textContent = text; };
const all = (name, value) => document.querySelectorAll(`[data-${name}="${CSS.escape(value)}"]`);
// The number of what is listed is another: what came is shown when somebody asks for it.
const counted = (list, total, words) => {
  if (pill && list?.dataset.total && total !== undefined && total !== Number(list.dataset.total)) { pill.textContent = words; pill.hidden = false; }
};
const state = news => {
  for (const place of document.querySelectorAll('[data-told]')) if (place.dataset.told in (news.told ?? {})) put(place, news.told[place.dataset.told]);
  for (const [id, [look, words, why]] of Object.entries(news.clients ?? {})) {
    const place = document.querySelector(`[data-client="${Number(id)}"]`);
    if (place) { put(place, words); place.className = look; put(document.querySelector(`[data-why="${Number(id)}"]`), why); }
  }
  counted(clients, news.total, 'Clients came or left');
  for (const [name, [look, words]] of Object.entries(news.servers ?? {})) for (const place of all('server-state', name)) { put(place, words); place.className = look; }
  for (const [key, [look, words, changes, last, now]] of Object.entries(news.follows ?? {})) {
    for (const place of all('follow', key)) { put(place, words); place.className = look; }
    for (const place of all('changes', key)) put(place, changes);
    for (const time of document.querySelectorAll(`[data-when="${CSS.escape(key)}"] time`)) if (last) { time.dateTime = last; time.hidden = false; age(time); }
    if (now) for (const edge of all('edge', key)) { edge.classList.remove('pulse'); edge.getBoundingClientRect(); edge.classList.add('pulse'); }
  }
  counted(follows, news.followed, 'Others are followed now');
  for (const number of ['failing', 'waiting']) if (number in news) put(document.getElementById(number), news[number]);
};

const open = () => {
  if (source || document.hidden) return;
  const shown = (name, key) => [...new Set([...document.querySelectorAll(`[data-${name}]`)].map(place => place.dataset[key]))];
  const servers = shown('server-state', 'serverState');
  const wanted = clients ? `&want=clients&clients=${shown('client', 'client')}` : follows ? `&want=follows&follows=${shown('follow', 'follow')}`
    : servers.length ? `&want=servers${servers.map(name => `&servers=${encodeURIComponent(name)}`).join('')}` : '';
  source = new EventSource(`/live?since=${last}${wanted}`);
  source.onopen = () => { pause = 1000; say(fresh && !pill ? `● live · ${fresh} new` : '● live', false); };
  source.onmessage = event => { const news = JSON.parse(event.data); if (Array.isArray(news)) count(news); else state(news); };
  source.onerror = () => {
    close();
    say('○ lost, trying again', true);
    clearTimeout(timer);
    timer = setTimeout(open, pause * (0.75 + Math.random() / 2));
    pause = Math.min(pause * 2, 30000);
    // The door says why.
    fetch('/live?ask=1').then(answer => { if (answer.status === 401) location.reload(); }, () => {});
  };
};
const close = () => { source?.close(); source = null; };

// Six open streams block every further request of the browser, so a tab that nobody sees has none, and asks once a minute.
const visibility = () => {
  clearInterval(minute);
  if (!document.hidden) return open();
  close();
  minute = setInterval(() => fetch(`/live?ask=1&since=${last}`).then(a => a.ok ? a.json() : []).then(count, () => {}), 60000);
};
begin();
document.addEventListener('visibilitychange', visibility);
addEventListener('pagehide', close);
// The stream comes after the first paint. A tab that nobody sees paints nothing.
if (document.hidden) visibility(); else requestAnimationFrame(() => setTimeout(visibility));

const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
const age = time => {
  const seconds = Math.max(0, Math.floor((Date.now() - Date.parse(time.dateTime)) / 1000));
  const [size, unit] = units.find(([size]) => seconds >= size) ?? [1, 's'];
  put(time, `${Math.floor(seconds / size)} ${unit} ago`);
};
setInterval(() => { if (!document.hidden) document.querySelectorAll('time[datetime]').forEach(age); }, 10000);

// What is new, without loading the page: a request of the old kind parses HTML without running any of it.
const swap = (address, quiet) => {
  const request = new XMLHttpRequest();
  request.open('GET', address);
  request.responseType = 'document';
  request.onload = () => {
    const next = request.responseXML, main = next?.getElementById('main');
    if (request.status !== 200 || !main) { location.href = address; return; }
    last = Math.max(last, Number(next.body.dataset.last)); fresh = 0;
    const at = document.activeElement?.textContent;
    document.getElementById('main').replaceWith(document.adoptNode(main));
    document.title = quiet ? next.title : title;
    begin();
    if (quiet) { [...document.querySelectorAll('main button')].find(button => button.textContent === at)?.focus({ preventScroll: true }); return; }
    // Other rows are shown now than the stream tells of.
    if (clients || follows) { close(); open(); }
    document.querySelector('.row')?.focus({ preventScroll: true });
    if (document.scrollingElement) document.scrollingElement.scrollTop = 0;
  };
  request.onerror = () => { location.href = address; };
  request.send();
};

const rows = () => [...document.querySelectorAll('.row')];
const move = step => {
  const all = rows(), at = all.indexOf(document.activeElement?.closest('.row'));
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? 0 : at + step))];
  next?.focus(); next?.scrollIntoView({ block: 'nearest' });
};
let going = false;
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select, textarea, dialog')) return;
  const row = document.activeElement?.closest('.row');
  const key = event.key;
  if (going) {
    going = false;
    const place = /^[a-z]$/.test(key) && document.querySelector(`[data-go="${key}"]`);
    if (place) { event.preventDefault(); place.click(); }
    return;
  }
  const act = {
    j: () => move(1), k: () => move(-1), g: () => { going = true; },
    o: () => { const all = row ? [...row.querySelectorAll('details')] : []; const wide = all.some(one => !one.open); all.forEach(one => { one.open = wide; }); },
    '/': () => document.getElementById('search')?.focus(),
    '?': () => document.getElementById('keys').showModal(),
    '.': () => { if (pill && !pill.hidden) pill.click(); },
    y: () => navigator.clipboard.writeText(new URL(row?.dataset.href ?? location.href, location.href).href),
  }[key];
  if (key === 'Enter' && row && document.activeElement === row && row.dataset.href) { location.href = row.dataset.href; return; }
  if (act) { event.preventDefault(); act(); }
});
