/* A button on each block of code copies what a reader would type: no prompt, and no output below a command.
   Prompts for agents name this site, wherever it is served. */
"use strict";

const ADDRESS_MARK = "DOKIMOS_DOCS";

const nameThisSite = (block) => {
  const texts = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (!text.data.includes(ADDRESS_MARK)) continue;
    const root = new URL(document.documentElement.dataset.content_root, location.href);
    text.data = text.data.replaceAll(`${ADDRESS_MARK}/`, root.href);
  }
};

const PROMPTS = ["$ ", ">>> "];

const textToCopy = (text) => {
  const lines = text.replace(/\n$/, "").split("\n");
  const prompt = PROMPTS.find((each) => lines.some((line) => line.startsWith(each)));
  if (prompt === undefined) return lines.join("\n");
  const typed = [];
  let goesOn = false;
  for (const line of lines) {
    const begins = line.startsWith(prompt);
    const follows = prompt === ">>> " && (line.startsWith("... ") || line === "...");
    if (begins || follows) typed.push(line.slice(4 - (prompt === "$ " ? 2 : 0)));
    else if (goesOn) typed.push(line);
    goesOn = (begins || goesOn) && line.endsWith("\\");
  }
  return typed.join("\n");
};

document.addEventListener("DOMContentLoaded", () => {
  for (const block of document.querySelectorAll("div.highlight")) {
    nameThisSite(block);
    const button = document.createElement("button");
    button.className = "copy";
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(textToCopy(block.querySelector("pre").textContent));
        button.textContent = "Copied";
      } catch {
        button.textContent = "Select and copy by hand";
      }
      setTimeout(() => (button.textContent = "Copy"), 2000);
    });
    block.append(button);
  }
});
