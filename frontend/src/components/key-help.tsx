/** All keys of the page that is open, as those who handle them declare them. */
import { type KeyGroup, keyGroups } from "../lib/keys";
import { useStore } from "../lib/store";
import "../styles/palette.css";
import { Dialog } from "./dialog";

export function KeyHelp({ onClose }: { onClose: () => void }) {
  const groups = uniqueGroups(useStore(keyGroups));
  return (
    <Dialog label="Keys" className="keys-help" onClose={onClose}>
      <div className="sec"><h2>Keys</h2><button type="button" className="btn bare right" onClick={onClose}>Close <kbd>esc</kbd></button></div>
      {groups.map((group) => (
        <section key={group.title} aria-label={group.title}>
          <h3>{group.title}</h3>
          <dl>
            {group.lines.map(([keys, text]) => (
              <div key={keys}><dt><Keys keys={keys} /></dt><dd>{text}</dd></div>
            ))}
          </dl>
        </section>
      ))}
      <p className="label">Single letters act while no field is being typed in.</p>
    </Dialog>
  );
}

/** Those of the page before those that act anywhere; a page may have two lists of one kind. */
function uniqueGroups(groups: readonly KeyGroup[]): KeyGroup[] {
  const unique = [...new Map(groups.map((group) => [group.title, group])).values()];
  return unique.sort((a, b) => Number(a.title === "Anywhere") - Number(b.title === "Anywhere"));
}

export function Keys({ keys }: { keys: string }) {
  return keys.split(" ").map((key) => <kbd key={key}>{key}</kbd>);
}
