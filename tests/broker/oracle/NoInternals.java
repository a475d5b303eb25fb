package org.apache.kafka.common.record.internal;

/** Makes the package exist for releases before 4.3, so that one import is right for all. */
interface NoInternals {}
