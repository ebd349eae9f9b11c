/** The version of these pages, which the build puts in. */
declare const VERSION: string;
