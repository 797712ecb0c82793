/** The frame of every page: menu, breadcrumbs, theme. */
import { useQuery } from "@tanstack/react-query";
import { Link, type LinkProps, Outlet, useRouterState } from "@tanstack/react-router";
import { Fragment, type ReactNode, createContext, useContext, useEffect, useState } from "react";
import { createPortal } from "react-dom";
import { projectsQuery } from "../api/queries";
import { typedRunsQuery } from "../api/reviews";
import { isSignedOutElsewhere } from "../api/signals";
import { useDraftParts } from "../lib/drafts";
import { count, shown } from "../lib/format";
import { REVIEW_DRAFTS } from "../lib/review-drafts";
import { addressOf } from "../lib/root";
import { followViews } from "../lib/saved-views";
import { useStore } from "../lib/store";
import { Stale } from "./stale";
import { toggleTheme } from "../lib/theme";
import mark from "../styles/mark.svg";
import { Account } from "./account";
import { KeyHelpHost } from "./key-help-host";
import { KeyTextHost } from "./key-text";
import { Tabs } from "./tabs";
import { NewVersion, NoticeArea, SignInNeeded, SignedOut } from "./notices";
import { PrintFoot } from "./print-foot";
import { PaletteButton, PaletteHost } from "./palette-host";

const CrumbsPlace = createContext<HTMLElement | null>(null);
const MOST_PROJECTS = 12;

/** The groups of the menu: a page that is new gets its line here. */
export const MENU: readonly (readonly [string, readonly MenuLink[]])[] = [
  ["Overview", [{ label: "Home", to: "/", activeOptions: { exact: true } }, { label: "Review queue", to: "/review-queue" }, { label: "Datasets", to: "/datasets" }]],
  ["Observability", [{ label: "Traces", to: "/traces" }, { label: "Sessions", to: "/sessions" }, { label: "Trace eval rules", to: "/trace-eval-rules" }, { label: "Alerts", to: "/trace-alerts" }]],
  ["Settings", [
    { label: "LLM connections", to: "/llm-connections" },
    { label: "API keys", to: "/api-keys" },
    { label: "Audit log", to: "/audit-log" },
    { label: "Server settings", to: "/settings" },
    { label: "Validity", to: "/validity" },
  ]],
];

interface MenuLink {
  readonly label: string;
  readonly to: NonNullable<LinkProps["to"]>;
  readonly activeOptions?: { readonly exact: boolean };
}

export function Shell() {
  const [isOpen, setIsOpen] = useState(false);
  const [place, setPlace] = useState<HTMLElement | null>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const isSignedOut = useStore(isSignedOutElsewhere);
  useEffect(() => setIsOpen(false), [path]);
  useEffect(followViews, []);
  useQuery(typedRunsQuery(useDraftParts(REVIEW_DRAFTS)));
  return (
    <CrumbsPlace value={place}>
      <a className="skip" href="#main">Skip to content</a>
      <div className={["app", isOpen && "menu-open", isSignedOut && "waits"].filter(Boolean).join(" ")}>
        <Menu />
        <div>
          <header className="top">
            <button
              type="button"
              className="btn bare burger"
              aria-label="Menu"
              aria-expanded={isOpen}
              onClick={() => setIsOpen(!isOpen)}
            >
              <svg className="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="M2.5 4.5h11M2.5 8h11M2.5 11.5h11" /></svg>
            </button>
            <nav className="crumbs" aria-label="Breadcrumbs" ref={setPlace} />
            <PaletteButton isNarrow />
            <button type="button" className="btn bare" aria-label="Change theme" onClick={toggleTheme}>
              <svg className="icon" viewBox="0 0 16 16" aria-hidden="true">
                <path d="M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM8 1.5V3M8 13v1.5M1.5 8H3M13 8h1.5" />
              </svg>
            </button>
          </header>
          <main id="main" tabIndex={-1}>
            <NewVersion />
            <Stale />
            {path !== "/login" && <SignInNeeded />}
            <Outlet />
            <PrintFoot />
          </main>
        </div>
      </div>
      {isSignedOut ? <SignedOut /> : <><NoticeArea /><PaletteHost /><KeyHelpHost /><KeyTextHost /></>}
      <Tabs />
    </CrumbsPlace>
  );
}

function Menu() {
  const projects = useQuery(projectsQuery);
  return (
    <nav className="side" aria-label="Main">
      <Link to="/" className="brand"><img className="mark" src={mark} alt="" />dokimos</Link>
      <PaletteButton />
      {MENU.map(([title, links]) => (
        <Fragment key={title}>
          <h3>{title}</h3>
          {links.map(({ label, ...link }) => <Link key={label} {...link}>{label}</Link>)}
        </Fragment>
      ))}
      <h3>Projects</h3>
      {projects.data?.slice(0, MOST_PROJECTS).map((project) => (
        <Link key={project.id} to="/projects/$name" params={{ name: project.name }}>
          <span className="cut">{shown(project.name)}</span>
        </Link>
      ))}
      {projects.data !== undefined && projects.data.length > MOST_PROJECTS && <Link to="/" activeProps={{}}>All {count(projects.data.length)} projects</Link>}
      <div className="foot">
        <Account />
        {projects.isError ? <span className="error">! the server does not answer</span> : <a href={addressOf("/openapi.json")}>API</a>}
      </div>
    </nav>
  );
}

/** The breadcrumbs of a page, the page itself last. */
export function Crumbs({ children, title }: { children?: ReactNode; title: string }) {
  const place = useContext(CrumbsPlace);
  useEffect(() => {
    document.title = `${title} · dokimos`;
  }, [title]);
  if (place === null) return null;
  return createPortal(
    <>
      {children}
      <span aria-current="page">{shown(title)}</span>
    </>,
    place,
  );
}
