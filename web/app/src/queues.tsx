export function Queues() { return <main><h1>Queues</h1></main>; }
