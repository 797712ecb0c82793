document.querySelectorAll("table.sortable").forEach(makeSortable);

if (document.getElementById("app")) {
  const data = JSON.parse(document.getElementById("data").textContent);
  const view = itemsView(data, fragmentAddress);
  const linkNames = (table) => {
    for (const name of table.querySelectorAll(".name")) {
      const show = () => { view.byEvaluator(Number(name.dataset.place)); document.getElementById("items").scrollIntoView(); };
      name.replaceWith(el("button", { type: "button", class: "link foreign", title: "Show its items, worst first", onclick: show }, name.textContent));
    }
  };
  for (const table of document.querySelectorAll(".evaluators")) {
    const hidden = table.closest("details.more-rows");
    if (hidden) hidden.addEventListener("toggle", () => linkNames(table), { once: true });
    else linkNames(table);
  }
  for (const key of document.querySelectorAll(".first [data-place]")) {
    key.replaceWith(el("button", { type: "button", class: "link key foreign", onclick: () => view.openAt(Number(key.dataset.place)) }, key.textContent));
  }
  heatMap(document.getElementById("map"), data.evaluators, view.worstFirst(), (item) => view.open(item));
  attach(view);
}
