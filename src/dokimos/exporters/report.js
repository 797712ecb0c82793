document.querySelectorAll("table.sortable").forEach(makeSortable);

const app = document.getElementById("app");
if (app) {
  const view = itemsView(JSON.parse(document.getElementById("data").textContent), {
    read: () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : ""),
    write: (kept) => {
      const hash = kept.toString();
      history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    },
  });
  for (const name of document.querySelectorAll(".evaluators .name")) {
    const show = () => { view.byEvaluator(name.dataset.evaluator); document.getElementById("items").scrollIntoView(); };
    name.replaceWith(el("button", { type: "button", class: "link foreign", title: "Show its items, worst first", onclick: show }, name.textContent));
  }
  for (const key of document.querySelectorAll(".first [data-item]")) {
    key.replaceWith(el("button", { type: "button", class: "link key foreign", onclick: () => view.open(key.dataset.item) }, key.textContent));
  }
  app.append(view.node);
  document.body.append(view.drawer);
  app.hidden = false;
  window.addEventListener("hashchange", () => view.show());
  view.show();
  view.reveal();
}
