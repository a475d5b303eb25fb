import org.apache.kafka.common.protocol.Errors;

/** Code, exception and base classes of each error: GroupOracle ERROR... */
public final class GroupOracle {
    public static void main(String[] errors) {
        for (String error : errors) {
            Class<?> type = Errors.valueOf(error).exception().getClass();
            StringBuilder line = new StringBuilder(error + " " + Errors.valueOf(error).code());
            for (; type != Object.class; type = type.getSuperclass()) {
                line.append(' ').append(type.getSimpleName());
            }
            System.out.println(line);
        }
    }
}
