//! Enter in a field of a form, where something has to be asked before the form can go on.

/** Does `act` at Enter while it is `wanted`, instead of going on. */
export function enter(wanted: () => boolean, act: () => Promise<unknown>) {
  return (event: KeyboardEvent): void => {
    if (event.key !== 'Enter' || !wanted() || !(event.target instanceof HTMLInputElement)) return;
    if (event.target.type === 'checkbox' || event.target.type === 'radio') return;
    event.preventDefault();
    void act();
  };
}
