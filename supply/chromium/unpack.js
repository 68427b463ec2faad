// Unpacks Chromium and the libraries it needs into TMPDIR, and prints where it is.
import chromium from "@sparticuz/chromium";

console.log(await chromium.executablePath());
