/** Pages whose files are read when they are opened. */
import type { RouteComponent } from "@tanstack/react-router";
import { type ComponentType, createElement, lazy, useState } from "react";

/**
 * A page from a file of its own, which the router reads before it shows the page. Without that, React would show
 * a placeholder and keep it for 300 ms, and the page would ask the server for nothing meanwhile.
 *
 * The file is of unknown type, since pages name their routes and routes their pages: types go round in a circle.
 */
export function lazyPage(load: () => Promise<object>, name: string): RouteComponent {
  let page: ComponentType | null = null;
  const read = async () => (page ??= ((await load()) as Record<string, ComponentType>)[name] as ComponentType);
  const Later = lazy(async () => ({ default: await read() }));
  const Page = () => createElement(useState(() => page ?? Later)[0]);
  return Object.assign(Page, { preload: async () => void (await read()) });
}
