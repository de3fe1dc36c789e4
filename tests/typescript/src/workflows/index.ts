export * from './activities';
export * from './basic';
export * from './cancellation';
export * from './children';
export * from './updates';
