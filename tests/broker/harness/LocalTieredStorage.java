package org.apache.kafka.server.log.remote.storage;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;

/**
 * Kafka's own class, whose copies fail while a file in `rsm.config.flags` says so. It has the name of that class, by which
 * tiersnap knows the layout, and hides it in the class loader of the plugin's class path. A copy that finds `hang` waits
 * for `answer`, and ends when it is interrupted if `soft` is there. One that finds `garble` writes all objects, with zeros
 * in the middle of the log, and throws what no broker cleans up after, as the client of a store may (KAFKA-19981). One
 * that finds `throw` writes all objects and throws what brokers clean up after, and so does the deletion then.
 */
public class LocalTieredStorage implements RemoteStorageManager {
    private final RemoteStorageManager storage = kafkas();
    private File flags;
    private Path directory;

    private static RemoteStorageManager kafkas() {
        ClassLoader loader = LocalTieredStorage.class.getClassLoader().getParent();
        try {
            Class<?> found = loader.loadClass(LocalTieredStorage.class.getName());
            return (RemoteStorageManager) found.getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException failure) {
            throw new IllegalStateException(failure);
        }
    }

    @Override
    public void configure(Map<String, ?> configs) {
        flags = new File((String) configs.get("flags"));
        directory = Path.of((String) configs.get("dir"));
        storage.configure(configs);
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata metadata, LogSegmentData data)
            throws RemoteStorageException {
        boolean hangs = new File(flags, "hang").exists();
        while (hangs && !new File(flags, "answer").exists()) {
            try {
                Thread.sleep(50);
            } catch (InterruptedException interrupted) {
                if (new File(flags, "soft").exists()) {
                    throw new RemoteStorageException(interrupted);
                }
            }
        }
        Optional<CustomMetadata> copied = storage.copyLogSegmentData(metadata, data);
        if (new File(flags, "garble").exists()) {
            garble(metadata.remoteLogSegmentId().id() + ".log");
            throw new IllegalStateException("garbled");
        }
        refuse();
        return copied;
    }

    private void garble(String name) throws RemoteStorageException {
        try (Stream<Path> files = Files.walk(directory)) {
            Path path = files.filter(each -> each.toString().endsWith(name)).findFirst().orElseThrow();
            try (RandomAccessFile log = new RandomAccessFile(path.toFile(), "rw")) {
                log.seek(log.length() / 2);
                log.write(new byte[4096]);
            }
        } catch (IOException failure) {
            throw new RemoteStorageException(failure);
        }
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start) throws RemoteStorageException {
        return storage.fetchLogSegment(metadata, start);
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int start, int end)
            throws RemoteStorageException {
        return storage.fetchLogSegment(metadata, start, end);
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType type) throws RemoteStorageException {
        return storage.fetchIndex(metadata, type);
    }

    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        refuse();
        storage.deleteLogSegmentData(metadata);
    }

    private void refuse() throws RemoteStorageException {
        if (new File(flags, "throw").exists()) {
            throw new RemoteStorageException("refused");
        }
    }

    @Override
    public void close() throws IOException {
        storage.close();
    }
}
