/* Pages come before names of the API, and names that were typed in full before a word in some text. */
var Scorer = {
  score: ([docname, title, anchor, descr, score, filename, kind]) =>
    kind === "object" ? score - 10 : score,
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 5, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
