// Typesets what pymdownx.arithmatex has marked: \(...\) in a line, \[...\] by itself.
for (const element of document.querySelectorAll(".arithmatex")) {
  const marked = element.textContent.trim();
  katex.render(marked.slice(2, -2), element, {
    displayMode: marked.startsWith("\\["),
    throwOnError: false,
  });
}
