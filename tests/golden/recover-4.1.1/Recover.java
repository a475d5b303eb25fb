import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/** Prints what LogSegment.recover writes: for each segment its path and the hex of its three indexes. */
public class Recover {
    public static void main(String[] args) throws Exception {
        Path root = Path.of(args[0]);
        List<Path> partitions;
        try (Stream<Path> found = Files.walk(root)) {
            partitions = found.filter(Files::isDirectory).sorted().toList();
        }
        for (Path partition : partitions) recover(root, partition);
    }

    private static void recover(Path root, Path original) throws Exception {
        List<Path> logs;
        try (Stream<Path> found = Files.list(original)) {
            logs = found.filter(path -> path.toString().endsWith(".log")).sorted().toList();
        }
        if (logs.isEmpty()) return;
        // Recovery writes: it works on a copy of the logs alone.
        File folder = Files.createTempDirectory("recover").toFile();
        for (Path log : logs) Files.copy(log, folder.toPath().resolve(log.getFileName()));
        TopicPartition name = new TopicPartition("recovered", 0);
        ProducerStateManager producers = new ProducerStateManager(
            name, folder, 900_000, new ProducerStateManagerConfig(86_400_000, true), Time.SYSTEM);
        LeaderEpochFileCache epochs = new LeaderEpochFileCache(
            name, new LeaderEpochCheckpointFile(LeaderEpochCheckpointFile.newFile(folder), new LogDirFailureChannel(1)), new KafkaScheduler(1));
        for (Path log : logs) {
            String stem = log.getFileName().toString().replace(".log", "");
            LogSegment segment = LogSegment.open(
                folder, Long.parseLong(stem), new LogConfig(Map.of()), Time.SYSTEM, 0, false);
            segment.recover(producers, epochs);
            segment.close();
            System.out.print(root.relativize(log).toString().replace('\\', '/'));
            for (String suffix : List.of(".index", ".timeindex", ".txnindex")) {
                Path index = folder.toPath().resolve(stem + suffix);
                byte[] bytes = Files.exists(index) ? Files.readAllBytes(index) : new byte[0];
                System.out.print("\t" + (bytes.length == 0 ? "-" : HexFormat.of().formatHex(bytes)));
            }
            System.out.println();
        }
        for (File file : folder.listFiles()) Files.delete(file.toPath());
        Files.delete(folder.toPath());
    }
}
