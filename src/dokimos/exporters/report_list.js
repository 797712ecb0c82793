const PAGE = 100;
const WORDS = { errored: "! error", failed: "✗ fail", unjudged: "– not judged", informational: "· informational", passed: "✓ pass" };

/**
 * A list of items with search, filters, columns that sort, keys and a drawer. Its state is kept at `address`.
 *
 * `items` have a `key` that no other has. `chips(state)` are [name, label, test]; `compare(state)` orders two
 * items; `head(state, column)` and `row(item, state)` make the table, `drawer(item, state)` gives `sign`, `word`
 * and `parts`; `haystack(item)` is the text that the search looks into, in lower case.
 */
const listView = (options) => {
  const { items, address, noun = "items" } = options;
  const DEFAULTS = { q: "", show: "all", sort: "worst", dir: "asc", item: "", ...options.defaults };
  const tagKeys = options.tagKeys || [];
  const places = new Map(items.map((item) => [item.key, item]));

  // ---- state, kept in the fragment ----

  let state = {};
  const readState = () => {
    const next = { ...DEFAULTS, tags: {} };
    for (const [key, value] of address.read()) {
      if (key.startsWith("tag.")) next.tags[key.slice(4)] = value;
      else if (Object.hasOwn(DEFAULTS, key)) next[key] = value;
    }
    state = next;
  };
  const writeState = () => {
    const kept = new URLSearchParams();
    for (const [key, value] of Object.entries(DEFAULTS)) if (state[key] !== value) kept.set(key, state[key]);
    for (const [key, value] of Object.entries(state.tags)) if (value) kept.set(`tag.${key}`, value);
    address.write(kept);
  };
  const change = (changes) => { Object.assign(state, changes); writeState(); refresh(); };

  // ---- the list ----

  const search = el("input", { type: "search", placeholder: options.placeholder, "aria-label": `Search the ${noun}`, autocomplete: "off", spellcheck: "false" });
  const chips = el("div", { class: "chips", role: "group", "aria-label": options.chipsLabel });
  const tagSelects = tagKeys.map((key, position) => {
    const values = [...new Set(items.flatMap((item) => item.tags[position]))].sort();
    const select = el("select", null, el("option", { value: "" }, "any"), values.map((value) => el("option", { value }, value)));
    select.addEventListener("change", () => change({ tags: { ...state.tags, [key]: select.value } }));
    return [key, select];
  });
  const total = el("span", { role: "status", "aria-live": "polite" });
  const head = el("tr");
  const body = el("tbody");
  const cleared = { q: "", show: "all", tags: {}, ...options.cleared };
  const emptyState = el("p", { class: "empty-state", hidden: true }, `No ${noun.replace(/s$/, "")} matches these filters.`,
    el("button", { type: "button", class: "plain-button", onclick: () => change(cleared) }, "Clear all filters"));
  const more = el("div", { class: "more", "aria-hidden": "true" });

  const candidates = () => {
    const terms = state.q.toLowerCase().split(/\s+/).filter(Boolean);
    const tags = Object.entries(state.tags).filter(([key, value]) => value && tagKeys.includes(key));
    return items.filter((item) =>
      tags.every(([key, value]) => item.tags[tagKeys.indexOf(key)].includes(value)) &&
      (terms.length === 0 || terms.every((term) => options.haystack(item).includes(term))));
  };

  let visible = [];
  let rendered = 0;
  const rowOf = (item) => {
    const row = options.row(item, state);
    row.dataset.key = item.key;
    row.addEventListener("click", (event) => { if (!getSelection().toString() || event.detail === 0) openItem(item); });
    item.row = row;
    return row;
  };
  const renderMore = () => {
    if (rendered >= visible.length) return;
    body.append(...visible.slice(rendered, rendered + PAGE).map(rowOf));
    rendered = Math.min(rendered + PAGE, visible.length);
    markCurrent();
  };
  const column = (label, sort, className, first) => {
    if (!sort) return el("th", { scope: "col", class: className }, label);
    const active = state.sort === sort;
    const turn = () => change(active ? { dir: state.dir === "asc" ? "desc" : "asc" } : { sort, dir: first || "asc" });
    return el("th", { scope: "col", class: className, "aria-sort": active && (state.dir === "asc" ? "ascending" : "descending") },
      el("button", { type: "button", onclick: turn }, label));
  };

  let lastList = "";
  const refresh = () => {
    if (search.value !== state.q) search.value = state.q;
    options.sync?.(state);
    for (const [key, select] of tagSelects) select.value = state.tags[key] || "";
    const { item, run, ...listed } = state;
    const list = JSON.stringify(listed);
    if (list !== lastList) { lastList = list; refreshList(); }
    refreshDrawer();
  };
  const refreshList = () => {
    const found = candidates();
    const kinds = options.chips(state);
    const active = kinds.find(([name]) => name === state.show) || kinds[0];
    chips.replaceChildren(...kinds.map(([name, label, test]) => {
      const count = found.filter(test).length;
      return el("button", { type: "button", class: `chip${count ? "" : " zero"}`, "data-show": name, "aria-pressed": String(name === active[0]), onclick: () => change({ show: name }) },
        label, el("b", null, count.toLocaleString("en")));
    }));
    const compare = options.compare(state);
    const sign = state.dir === "desc" ? -1 : 1;
    visible = found.filter(active[2]).sort((a, b) => compare(a, b, sign) || a.index - b.index);
    total.textContent = `${visible.length.toLocaleString("en")} of ${items.length.toLocaleString("en")} ${noun}`;
    head.replaceChildren(...options.head(state, column));
    for (const item of items) item.row = null;
    body.replaceChildren();
    rendered = 0;
    renderMore();
    emptyState.hidden = visible.length > 0;
  };

  // ---- the drawer ----

  const drawer = el("aside", { class: "drawer", role: "dialog", "aria-labelledby": "drawer-title", hidden: true, tabindex: "-1" });
  let current = null;
  const markCurrent = () => {
    for (const row of body.querySelectorAll(".current")) row.classList.remove("current");
    if (current && current.row) current.row.classList.add("current");
  };
  const openItem = (item, changes) => change({ item: item.key, ...options.fresh, ...changes });
  const closeItem = () => {
    change({ item: "", ...options.fresh });
    if (current && current.row) current.row.querySelector(".open").focus();
  };
  const move = (step) => {
    if (!visible.length) return;
    const position = visible.indexOf(current);
    const next = position < 0 ? (step > 0 ? 0 : visible.length - 1) : Math.min(Math.max(position + step, 0), visible.length - 1);
    while (rendered <= next) renderMore();
    current = visible[next];
    if (state.item) openItem(current);
    else current.row.querySelector(".open").focus({ preventScroll: true });
    markCurrent();
    current.row.scrollIntoView({ block: "nearest" });
  };
  const fillDrawer = (item) => {
    const { sign, word, parts } = options.drawer(item, state);
    const position = visible.indexOf(item);
    const step = (label, by, title) => el("button", { type: "button", class: "plain-button", title, "aria-label": title, disabled: position < 0 || !visible[position + by], onclick: () => move(by) }, label);
    drawer.replaceChildren(
      el("div", { class: "drawer-head" },
        el("span", { class: `sign ${sign}` }, word), el("h2", { id: "drawer-title" }, item.key),
        step("↑", -1, "Previous item (k)"), step("↓", 1, "Next item (j)"),
        el("button", { type: "button", class: "plain-button close", "aria-label": "Close (Esc)", title: "Close (Esc)", onclick: closeItem }, "✕")),
      el("div", { class: "drawer-body" }, parts));
  };
  const refreshDrawer = () => {
    const item = state.item && places.get(state.item);
    const wasHidden = drawer.hidden;
    drawer.hidden = !item;
    if (!item) return;
    current = item;
    fillDrawer(item);
    markCurrent();
    if (wasHidden) drawer.focus({ preventScroll: true });
  };

  // ---- wiring ----

  const leaving = new AbortController();
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape" && state.item) { closeItem(); return; }
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "/") { event.preventDefault(); search.focus(); }
    else if (event.key === "Enter" && current && !state.item && event.target === document.body) openItem(current);
  }, { signal: leaving.signal });
  let typing = 0;
  search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(() => change({ q: search.value }), 80); });
  const node = el("div", { class: "items-view" },
    el("div", { class: "toolbar" }, search, (options.controls || []),
      tagSelects.map(([key, select]) => el("label", null, el("span", { class: "foreign" }, key), select)), chips),
    el("p", { class: "summary-line" }, total,
      el("span", { class: "keys" }, el("kbd", null, "j"), " ", el("kbd", null, "k"), " move · ", el("kbd", null, "Enter"), " open · ", el("kbd", null, "Esc"), " close · ", el("kbd", null, "/"), " search")),
    el("div", { class: "scroll" }, el("table", { class: `list ${options.className || ""}` }, el("thead", null, head), body)), emptyState, more);
  const watch = new IntersectionObserver((entries) => { if (entries.some((entry) => entry.isIntersecting)) renderMore(); }, { rootMargin: "1200px" });
  watch.observe(more);
  return {
    node,
    drawer,
    change,
    state: () => state,
    /** Read the state from the address and show it. */
    show() { readState(); refresh(); },
    /** Bring what is open into sight. */
    reveal() { if (current && current.row) current.row.scrollIntoView({ block: "center" }); },
    open: openItem,
    leave() { leaving.abort(); watch.disconnect(); drawer.remove(); },
  };
};

/** A state that is kept in the fragment of the page's own address. */
const fragmentAddress = {
  read: () => new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : ""),
  write: (kept) => {
    const hash = kept.toString();
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  },
};
const attach = (view) => {
  const app = document.getElementById("app");
  app.append(view.node);
  document.body.append(view.drawer);
  app.hidden = false;
  window.addEventListener("hashchange", () => view.show());
  view.show();
  view.reveal();
};
