export function TraceAlertsPage() { return null; }
