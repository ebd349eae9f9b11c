//! What the pages' logic wants of a browser, where there is none.

export class Memory {
  kept = new Map<string, string>();
  getItem = (key: string) => this.kept.get(key) ?? null;
  setItem = (key: string, value: string) => void this.kept.set(key, value);
  removeItem = (key: string) => void this.kept.delete(key);
}

const page = Object.assign(new EventTarget(), { visibilityState: 'visible' });
const window = new EventTarget();
Object.assign(globalThis, {
  document: page,
  localStorage: new Memory(),
  location: { hash: '', reload: () => undefined },
  addEventListener: window.addEventListener.bind(window),
  removeEventListener: window.removeEventListener.bind(window),
  dispatchEvent: window.dispatchEvent.bind(window),
});

/** Hides the page, or shows it again. */
export function look(visibilityState: 'visible' | 'hidden'): void {
  page.visibilityState = visibilityState;
  page.dispatchEvent(new Event('visibilitychange'));
}
