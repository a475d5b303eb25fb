import org.apache.kafka.common.protocol.Errors;

/** The nearest named base class of each error's exception: GroupOracle ERROR... */
public final class GroupOracle {
    public static void main(String[] errors) {
        for (String error : errors) {
            Class<?> type = Errors.valueOf(error).exception().getClass().getSuperclass();
            StringBuilder line = new StringBuilder(error);
            for (; type != Object.class; type = type.getSuperclass()) {
                line.append(' ').append(type.getSimpleName());
            }
            System.out.println(line);
        }
    }
}
