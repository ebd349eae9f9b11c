//! The time, for ages: it advances every half minute while the page is visible.

class Clock {
  now = $state(Date.now());

  constructor() {
    setInterval(() => {
      if (document.visibilityState === 'visible') this.now = Date.now();
    }, 30_000);
    document.addEventListener('visibilitychange', () => {
      this.now = Date.now();
    });
  }
}

export const clock = new Clock();
