//! Where the focus goes when what has it leaves the page: to what is nearest, and not to where the page begins.

const USABLE = 'a[href], button:not([disabled]), input:not([disabled]), select, [tabindex="0"]';

/** Sees to it until the returned function is called. */
export function keepFocus(): () => void {
  // What has it, and all that it is in. A question over the page gives it back by itself.
  let path: Element[] = [];
  const of = (target: EventTarget | null) => {
    path = [];
    for (let one = target as Element | null; one; one = one.parentElement) path.push(one);
  };
  const focused = (event: FocusEvent) => of(event.target);
  // Who points elsewhere has let it go.
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
