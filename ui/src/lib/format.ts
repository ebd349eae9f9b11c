//! Numbers and times as people read them. `now` is an argument.

import { t } from './text';

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** Bytes in steps of 1024, with at most three digits: `1.2 GiB`. */
export function bytes(value: number): string {
  let unit = 0;
  let scaled = Math.max(0, value);
  // 999.6 KiB would be shown as 1000 KiB.
  while (scaled >= 999.5 && unit < UNITS.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  const text = unit === 0 || scaled >= 99.95 ? scaled.toFixed(0) : scaled.toFixed(1);
  return `${text.replace(/\.0$/, '')} ${UNITS[unit] ?? ''}`;
}

/** The amount that is only on this computer, at the beginning of a sentence: a size, or "some" if it was not counted. */
export const unsent = (value: number, known: boolean): string => (known ? bytes(value) : t('unsent.some'));

export function rate(bytesPerSecond: number): string {
  return t('unit.per_second', { size: bytes(bytesPerSecond) });
}

/**
 * Reads bytes that a person typed, like the command line: `20G` and `20 GiB` are binary, `20 GB` is decimal. `undefined` if it is no size.
 */
export function parseBytes(text: string): number | undefined {
  const [, number = '', unit = '', rest = ''] = /^\s*(\d+(?:[.,]\d+)?)\s*([kmgtp]?)(i?b)?\s*$/i.exec(text) ?? [];
  if (number === '') return undefined;
  const power = ['', 'k', 'm', 'g', 't', 'p'].indexOf(unit.toLowerCase());
  return Math.round(Number(number.replace(',', '.')) * (/^b/i.test(rest) ? 1000 : 1024) ** power);
}

/** How long ago, coarsely: it is read at a glance and need not be redrawn every second. */
export function ago(ms: number): string {
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 1) return t('time.now');
  if (minutes < 60) return t('time.minutes_ago', { count: minutes });
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return t('time.hours_ago', { count: hours });
  return t('time.days_ago', { count: Math.floor(hours / 24) });
}

/** How long, with at most two parts: `4 min`, `2 h 5 min`. */
export function duration(seconds: number): string {
  if (seconds < 60) return t('time.seconds', { count: Math.max(1, Math.round(seconds)) });
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return t('time.minutes', { count: minutes });
  return t('time.hours', { hours: Math.floor(minutes / 60), minutes: minutes % 60 });
}

// Making a formatter takes longer than drawing a row of a list may.
const shape = (options: Intl.DateTimeFormatOptions) => new Intl.DateTimeFormat('en-GB', options);
const ofDay = { day: 'numeric', month: 'short' } as const;
const [thisYear, anyYear] = [shape(ofDay), shape({ ...ofDay, year: 'numeric' })];
const hours = shape({ hour: '2-digit', minute: '2-digit' });

/** The day of a time. */
export const day = (time: Date, now: Date): string =>
  (time.getFullYear() === now.getFullYear() ? thisYear : anyYear).format(time);

/** The hour for a time of today, otherwise with the day. */
export function moment(at: string | Date, now: Date): string {
  const time = typeof at === 'string' ? new Date(at) : at;
  if (Number.isNaN(time.getTime())) return '';
  const hour = hours.format(time);
  return time.toDateString() === now.toDateString() ? hour : `${day(time, now)}, ${hour}`;
}

/** A near time, to the second. */
export const second = (at: string): string => new Date(at).toLocaleTimeString('en-GB');

export function percent(part: number, whole: number): number {
  return whole <= 0 ? 0 : Math.min(100, Math.max(0, (part / whole) * 100));
}

/** With a capital letter and a full stop: findings are only parts of sentences. */
export function sentence(text: string, end = '.'): string {
  const whole = text.trim();
  return whole === '' ? '' : whole[0]?.toUpperCase() + whole.slice(1) + (/[.?!]$/.test(whole) ? '' : end);
}
