/** How much of something is used, as a bar with its words. */
export function Meter({ used, of, label }: { used: number; of: number; label: string }) {
  const share = of > 0 ? Math.min(1, used / of) : 0;
  const percent = Math.round(share * 100);
  return (
    <span class="meter" data-full={share > 0.85 || undefined}>
      <span class="meter-bar" role="img" aria-label={label}>
        <span style={{ width: `${percent}%` }} />
      </span>
      <span class="meter-words">{percent} %</span>
    </span>
  );
}
