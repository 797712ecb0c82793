import { expect, test } from "vitest";
import { chooseLook, heightOf, keepLook, keptLook, readParts, togglePart } from "./item-columns";

test("the address comes before what the browser keeps, and what is unknown is not understood", () => {
  expect(chooseLook({}, {})).toEqual({ parts: ["got", "want", "scores", "latency"], height: "usual" });
  expect(chooseLook({ columns: "cost,got" }, { parts: [], height: "high" })).toEqual({ parts: ["got", "cost"], height: "high" });
  expect(chooseLook({ columns: "price", rows: "giant" }, { parts: ["want"] })).toEqual({ parts: ["want"], height: "usual" });
  expect(readParts("none")).toEqual([]);
});

test("a row is as high as what it shows", () => {
  expect(heightOf({ parts: ["got", "want", "scores"], height: "usual" })).toBe(76);
  expect(heightOf({ parts: ["got", "want"], height: "low" })).toBe(36);
  expect(heightOf({ parts: ["got", "want"], height: "high" })).toBe(156);
  expect(heightOf({ parts: [], height: "usual" })).toBe(56);
});

test("parts are kept in their order", () => {
  expect(togglePart(["scores"], "got")).toEqual(["got", "scores"]);
  expect(togglePart(["got", "scores"], "got")).toEqual(["scores"]);
});

test("what is chosen holds at once wherever the address says nothing of it", () => {
  const heard: unknown[] = [];
  const leave = keptLook.follow(() => heard.push(keptLook.get()));
  keepLook({ parts: ["cost"], height: "low" });
  leave();
  expect(heard).toEqual([{ parts: ["cost"], height: "low" }]);
  expect(chooseLook({}, keptLook.get())).toEqual({ parts: ["cost"], height: "low" });
});
