import { useState } from "react";
import { apiUrl } from "../signed-in.tsx";

interface SignInProps {
  onKey(key: string): void;
  isChecking: boolean;
  message: string;
}

export function SignIn({ onKey, isChecking, message }: SignInProps) {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState("");
  const text = problem || message;

  function enter(): void {
    const trimmed = key.trim();
    const isKey = /^[\x21-\x7e]+$/.test(trimmed);
    setProblem(isKey ? "" : "Paste the key as it was shown: one word.");
    if (isKey) onKey(trimmed);
  }

  return (
    <main className="sign-in">
      <form
        className="card"
        onSubmit={(event) => {
          event.preventDefault();
          enter();
        }}
      >
        <h1>
          <span className="mark" aria-hidden="true" />
          Concierge
        </h1>
        <p className="muted">
          See what runs, what is stuck and what it costs. Sign in with an API key for <code>{apiUrl}</code>.
        </p>
        <label>
          API key
          <input
            type="password"
            name="key"
            autoComplete="off"
            spellCheck={false}
            value={key}
            onChange={(event) => setKey(event.target.value)}
            aria-describedby="key-help"
            aria-invalid={text ? true : undefined}
          />
        </label>
        <p id="key-help" className="hint">
          <code>npm run dev</code> prints it. The key stays in this tab and is forgotten when you close it.
        </p>
        {text && (
          <p role="alert" className="error">
            {text}
          </p>
        )}
        <button type="submit" className="primary" disabled={isChecking || key === ""}>
          {isChecking ? "Checking…" : "Sign in"}
        </button>
      </form>
    </main>
  );
}
