//! Copies a text to the clipboard.

/** Returns whether it was copied. */
export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return byHand(text);
  }
}

/** If the page may not use the clipboard, it copies a selection. */
function byHand(text: string): boolean {
  const field = document.createElement('textarea');
  field.value = text;
  const place = document.activeElement?.closest('dialog') ?? document.body;
  place.append(field);
  const before = document.activeElement;
  field.select();
  const done = document.execCommand('copy');
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}
