//! Quiet hours: minutes of the day and days of the week as people choose them.

/** Minutes from midnight in the form of a time field: `08:30`. */
export function timeOf(minute: number): string {
  const two = (value: number) => String(value).padStart(2, '0');
  return `${two(Math.floor(minute / 60))}:${two(minute % 60)}`;
}

/** The minutes from midnight of `08:30`; `undefined` if the field is empty. */
export function minuteOf(time: string): number | undefined {
  const match = /^(\d{2}):(\d{2})/.exec(time);
  return match ? Number(match[1]) * 60 + Number(match[2]) : undefined;
}

/** The names of the days, Monday first. */
export function weekdays(): { long: string; short: string }[] {
  const name = (style: 'long' | 'short') => new Intl.DateTimeFormat('en', { weekday: style, timeZone: 'UTC' });
  const [long, short] = [name('long'), name('short')];
  return Array.from({ length: 7 }, (_, index) => {
    // 1 January 2024 was a Monday.
    const day = new Date(Date.UTC(2024, 0, 1 + index));
    return { long: long.format(day), short: short.format(day) };
  });
}
