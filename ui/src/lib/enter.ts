//! Enter in a field of a form, where another question comes before the form can continue.

/** On Enter, does `act` instead of continuing, if it is `wanted`. */
export function enter(wanted: () => boolean, act: () => Promise<unknown>) {
  return (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' || !wanted() || !(event.target instanceof HTMLInputElement)) return;
    if (event.target.type === 'checkbox' || event.target.type === 'radio') return;
    event.preventDefault();
    void act();
  };
}
