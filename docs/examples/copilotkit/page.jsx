// CopilotKit's chat talks to the host without a server of its own between them, and asks about calls that wait.

import { HttpAgent } from "@ag-ui/client";
import { CopilotChat, CopilotKitProvider, useInterrupt } from "@copilotkit/react-core/v2";
import { createRoot } from "react-dom/client";

const agent = new HttpAgent({ url: `${location.origin}/agents/v1/ag-ui` });

function Approvals() {
  useInterrupt({
    render: ({ interrupt, resolve }) => {
      const digest = interrupt?.metadata?.digest; // of what is shown: a decision about anything else is refused
      return (
        <p role="alert">
          {interrupt?.message}
          <button onClick={() => resolve({ approved: true, digest })}>Approve</button>
          <button onClick={() => resolve({ approved: false, digest })}>Reject</button>
        </p>
      );
    },
  });
  return null;
}

createRoot(document.getElementById("root")).render(
  <CopilotKitProvider agents__unsafe_dev_only={{ default: agent }}>
    <Approvals />
    <CopilotChat />
  </CopilotKitProvider>,
);
