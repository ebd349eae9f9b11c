//! Moves the focus when the element that has it leaves the page: to the nearest element, and not to the start of the page.

const USABLE = 'a[href], button:not([disabled]), input:not([disabled]), select, [tabindex="0"]';

/** Does this until the returned function is called. */
export function keepFocus(): () => void {
  // The element with the focus, and all elements around it. A dialog gives the focus back by itself.
  let path: Element[] = [];
  const of = (target: EventTarget | null) => {
    path = [];
    for (let one = target as Element | null; one; one = one.parentElement) path.push(one);
  };
  const focused = (event: FocusEvent) => of(event.target);
  // A click elsewhere gives up the focus.
  const pressed = (event: PointerEvent) => {
    if (!path[0]?.contains(event.target as Node)) path = [];
  };
  const gone = new MutationObserver(() => {
    if (!path[0] || path[0].isConnected || document.activeElement !== document.body) return;
    const near = path.filter((one) => one.isConnected && one !== document.body);
    path = [];
    for (const one of near) {
      const next =
        one.tagName === 'MAIN' ? one.querySelector<HTMLElement>('h1') : one.querySelector<HTMLElement>(USABLE);
      if (next) return next.focus();
    }
  });
  addEventListener('focusin', focused);
  addEventListener('pointerdown', pressed);
  gone.observe(document.body, { childList: true, subtree: true });
  return () => {
    removeEventListener('focusin', focused);
    removeEventListener('pointerdown', pressed);
    gone.disconnect();
  };
}
