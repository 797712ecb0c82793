export function ValidityPage() { return null; }
