import java.io.File;
import java.io.InputStream;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.server.log.remote.storage.LocalTieredStorage;
import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * A LocalTieredStorage whose copies do not return while a file says so: one that finds `hang` in `rsm.config.flags`
 * waits there for `answer`, and ends when it is interrupted if `soft` is there.
 */
public class FlakyStorage implements RemoteStorageManager {
    private final LocalTieredStorage storage = new LocalTieredStorage();
    private File flags;

    @Override
    public void configure(Map<String, ?> configs) {
        flags = new File((String) configs.get("flags"));
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
        return storage.copyLogSegmentData(metadata, data);
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
        storage.deleteLogSegmentData(metadata);
    }

    @Override
    public void close() {
        storage.close();
    }
}
