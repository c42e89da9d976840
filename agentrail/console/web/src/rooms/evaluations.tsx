/** Experiments; one beside its baseline; the runs of a case in both: `#/evaluations/FILE/CASE?against=FILE`. */
import "../style/evaluations.css";
import { EvaluationCase } from "../parts/evaluation_case";
import { ExperimentList } from "../parts/experiment_list";
import { OneExperiment } from "../parts/one_experiment";
import type { RoomProps } from "../rooms";

export default function Evaluations({ place }: RoomProps) {
  const [file, name] = place.rest;
  const against = place.query.get("against");
  if (file === undefined) return <ExperimentList place={place} />;
  if (name === undefined) return <OneExperiment key={file} file={file} against={against} place={place} />;
  return <EvaluationCase file={file} against={against} name={name} />;
}
