//! The time, for what is told as an age: it moves on every half minute while somebody looks.

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
