/** The manual, which the build makes of docs/manual: see tools/manual.ts. */
declare module 'virtual:manual' {
  const pages: import('../tools/manual').ManualPage[];
  export default pages;
}
