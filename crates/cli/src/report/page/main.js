// Begins.

const { store } = data;
byId('store-address').textContent = visible(store.address);
byId('store-facts').textContent = [
  `As of ${clock(now)} ${Intl.DateTimeFormat().resolvedOptions().timeZone ?? 'local time'}`,
  store.engine,
  size(store.sizeBytes),
  `runledger ${store.libraryVersion}`,
  `stuck means a lease that ended, or more than ${duration(data.longerThan)} queued or waiting`,
].join(' · ');

showFilters();
showRuns();
showWorkflows();
byId('more').addEventListener('click', () => {
  shownCards += 4 * CARDS;
  showWorkflows();
});
prepareSheet();
followAddress();
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || byId('sheet').open || event.target.matches('input, select')) return;
  event.preventDefault();
  byId('search').focus();
});
