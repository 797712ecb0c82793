export function ServerSettingsPage() { return null; }
