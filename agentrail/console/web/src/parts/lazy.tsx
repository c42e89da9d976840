/** A part of a room whose code is loaded when it is first shown. */
import { useSignal } from "@preact/signals";
import type { ComponentType } from "preact";
import { useEffect } from "preact/hooks";

interface LazyProps<Props> {
  readonly load: () => Promise<ComponentType<Props>>;
  readonly props: Props;
}

export function Lazy<Props extends object>({ load, props }: LazyProps<Props>) {
  const loaded = useSignal<{ readonly Part: ComponentType<Props> } | null>(null);
  const hasFailed = useSignal(false);
  useEffect(() => {
    load().then(
      (Part) => (loaded.value = { Part }),
      () => (hasFailed.value = true),
    );
  }, []);
  if (hasFailed.value) return <p role="alert">It could not be loaded: the host may have another version now. Load the page again.</p>;
  if (!loaded.value) return <p role="status">Loading …</p>;
  const { Part } = loaded.value;
  return <Part {...props} />;
}
