// Elements, texts, times and numbers. A text only ever becomes a text node: nothing that is stored can be markup.

const SVG = 'http://www.w3.org/2000/svg';

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null));
  return element;
}

const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const shape = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const byId = (id) => document.getElementById(id);

/** A stored text that can be seen: control characters as their pictures, and spaces at its ends. */
function visible(text) {
  const picture = (character) => String.fromCodePoint(character === '\x7f' ? 0x2421 : 0x2400 + character.charCodeAt(0));
  // Overrides of the direction would show the rest in a false order.
  const code = (character) => `⟨U+${character.charCodeAt(0).toString(16).toUpperCase()}⟩`;
  const turned = text.replace(/[\u202a-\u202e\u2066-\u2069]/g, code);
  return turned.replace(/[\0-\x08\x0b-\x1f\x7f]/g, picture);
}

/** An identifier, set apart from the direction of what stands around it. */
function name(text, attributes = {}) {
  const shown = visible(text).replace(/[\t\n]/g, (character) => (character === '\t' ? '␉' : '␊'));
  return el(
    'bdi',
    attributes,
    shown.replace(/^ +| +$/g, (spaces) => '␠'.repeat(spaces.length)),
  );
}

const capital = (word) => word[0].toUpperCase() + word.slice(1);
const pill = (status) => el('span', { class: `pill ${status}` }, capital(status));

const GROUPED = new Intl.NumberFormat('en');
const count = (value) => GROUPED.format(value);
const plural = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

function size(bytes) {
  if (bytes < 1024) return plural(bytes, 'byte');
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  let [value, unit] = [bytes / 1024, 0];
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${value.toFixed(1)} ${units[unit]}`;
}

/** Beyond where a number is exact, microseconds were cut to milliseconds, and what is off is rounding. */
const toDate = (us) => new Date(Math.abs(us) < 2 ** 53 ? Math.floor(us / 1000) : Math.round(us / 1000));

function clock(us, withMilliseconds = false) {
  const date = toDate(us);
  const two = (value) => String(value).padStart(2, '0');
  const day = `${String(date.getFullYear()).padStart(4, '0')}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return withMilliseconds ? `${day} ${time}.${String(date.getMilliseconds()).padStart(3, '0')}` : `${day} ${time}`;
}

const UNITS = [
  ['y', 31_557_600e6],
  ['d', 86_400e6],
  ['h', 3_600e6],
  ['min', 60e6],
  ['s', 1e6],
  ['ms', 1e3],
  ['µs', 1],
];

/** A length of time with the two largest units that say something. */
function duration(us) {
  const sign = us < 0 ? '−' : '';
  const whole = Math.abs(us);
  if (whole < 1) return '0 s';
  const at = UNITS.findIndex(([, unit]) => whole >= unit);
  const [unit, of] = UNITS[at];
  const first = whole / of;
  if (of <= 1e6) return `${sign}${first < 10 ? Number(first.toFixed(1)) : Math.round(first)} ${unit}`;
  const [below, belowOf] = UNITS[at + 1];
  const rest = Math.floor((whole - Math.floor(first) * of) / belowOf);
  return `${sign}${count(Math.floor(first))} ${unit}${rest && first < 30 ? ` ${rest} ${below}` : ''}`;
}

const ago = (us) => (us <= now ? `${duration(now - us)} ago` : `in ${duration(us - now)}`);

/** A time as it was here, with how long before the report it was. */
function when(us, attributes = {}) {
  return el('time', { datetime: isoOf(us), ...attributes }, clock(us));
}

function isoOf(us) {
  const date = toDate(us);
  return date.getUTCFullYear() >= 1 ? date.toISOString().replace(/^\+0*/, '') : undefined;
}

/** Why somebody should look, in words. */
function lookOf({ why, since }, of = '') {
  const what = { leaseEnded: 'lease ended', queued: 'has been queued', waiting: 'has been waiting' }[why];
  const words = why === 'leaseEnded' ? `${what} ${ago(since)}` : `${what} for ${duration(now - since)}`;
  return capital(`${of}${words}`);
}
